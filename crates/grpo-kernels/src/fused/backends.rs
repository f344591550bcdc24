//! Which backends have the operations. All but flex compose the chunks from burn's own operations; flex brings loops (`flex.rs`, `gate.rs`).
//!
//! burn deprecates two of them together with their crates; they are here as long as it has them.
#![cfg_attr(
    any(feature = "ndarray", feature = "tch"),
    expect(deprecated, reason = "burn 0.22 has burn-ndarray and burn-tch for the last time")
)]

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
