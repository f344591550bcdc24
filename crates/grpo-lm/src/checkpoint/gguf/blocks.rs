//! The types of tensors in GGUF files, and how to get float32 out of them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use candle_core::Device;
use candle_core::quantized::{GgmlDType, ggml_file::qtensor_from_ggml};

use crate::checkpoint::elements;

/// A type of tensor that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockType {
    code: u32,
    name: &'static str,
    dtype: GgmlDType,
}

const fn known(code: u32, name: &'static str, dtype: GgmlDType) -> BlockType {
    BlockType { code, name, dtype }
}

const KNOWN: [BlockType; 13] = [
    known(0, "F32", GgmlDType::F32),
    known(1, "F16", GgmlDType::F16),
    known(30, "BF16", GgmlDType::BF16),
    known(8, "Q8_0", GgmlDType::Q8_0),
    known(2, "Q4_0", GgmlDType::Q4_0),
    known(3, "Q4_1", GgmlDType::Q4_1),
    known(6, "Q5_0", GgmlDType::Q5_0),
    known(7, "Q5_1", GgmlDType::Q5_1),
    known(10, "Q2_K", GgmlDType::Q2K),
    known(11, "Q3_K", GgmlDType::Q3K),
    known(12, "Q4_K", GgmlDType::Q4K),
    known(13, "Q5_K", GgmlDType::Q5K),
    known(14, "Q6_K", GgmlDType::Q6K),
];

/// Types that GGUF defines and we cannot read, for the message.
const FOREIGN: [(u32, &str); 19] = [
    (9, "Q8_1"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (29, "IQ1_M"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
];

impl BlockType {
    pub(super) fn from_code(code: u32) -> Option<Self> {
        KNOWN.into_iter().find(|known| known.code == code)
    }

    pub(super) fn foreign_name(code: u32) -> String {
        let name = FOREIGN.iter().find(|(foreign, _)| *foreign == code);
        name.map_or_else(|| format!("number {code}"), |(_, name)| (*name).to_owned())
    }

    pub(super) fn supported() -> String {
        KNOWN.map(|known| known.name).join(", ")
    }

    pub(super) fn name(self) -> &'static str {
        self.name
    }

    /// Elements of one block.
    pub(super) fn elements(self) -> usize {
        self.dtype.block_size()
    }

    /// Bytes of so many elements, unless they are no whole blocks or too many.
    pub(super) fn bytes(self, elements: usize) -> Option<usize> {
        let whole = elements.is_multiple_of(self.elements());
        whole.then_some(())?;
        (elements / self.elements()).checked_mul(self.dtype.type_size())
    }

    /// The values in the bytes of a tensor, which are as many as [`bytes`](Self::bytes) says.
    pub(super) fn decode(self, bytes: &[u8], shape: &[usize]) -> Result<Vec<f32>, String> {
        match self.dtype {
            GgmlDType::F32 => return Ok(elements(bytes, f32::from_le_bytes)),
            GgmlDType::F16 => return Ok(elements(bytes, |b| half::f16::from_le_bytes(b).to_f32())),
            GgmlDType::BF16 => return Ok(elements(bytes, |b| half::bf16::from_le_bytes(b).to_f32())),
            _ => {}
        }
        let decode = || {
            qtensor_from_ggml(self.dtype, bytes, shape.to_vec(), &Device::Cpu)?.dequantize(&Device::Cpu)?.flatten_all()?.to_vec1::<f32>()
        };
        // The sizes are right, so nothing should panic; if it does, it is one file's failure.
        match catch_unwind(AssertUnwindSafe(decode)) {
            Ok(result) => result.map_err(|error| error.to_string()),
            Err(_) => Err(format!("blocks of {} that cannot be decoded", self.name)),
        }
    }
}
