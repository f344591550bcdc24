//! Which backends have the operations. All but flex compose the chunks from burn's own operations; flex brings loops (`flex.rs`, `gate.rs`).

macro_rules! composed {
    ($($backend:ty: $feature:literal),*) => { $(
        #[cfg(feature = $feature)]
        impl super::chunk::ChunkKernel for $backend {}
        #[cfg(feature = $feature)]
        impl super::gate::GateKernel for $backend {}
        #[cfg(feature = $feature)]
        impl super::op::RowStatsBackend for $backend {}
        #[cfg(feature = $feature)]
        impl super::gate::GatedSilu for $backend {}
    )* };
}

composed!(burn::backend::NdArray: "ndarray", burn::backend::LibTorch: "tch", burn::backend::Cube: "wgpu");

#[cfg(feature = "flex")]
impl super::op::RowStatsBackend for burn::backend::Flex {}
#[cfg(feature = "flex")]
impl super::gate::GatedSilu for burn::backend::Flex {}
