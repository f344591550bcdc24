//! Rows without padding, and where they stand in the blocks of attention.

use burn::Tensor;
use burn::tensor::{Device, Int, TensorData};

/// Where some of R packed rows stand in blocks `[P, G, T]` of prompts, completions and positions.
///
/// Everything but attention works on packed rows, one a real token, prompt after prompt and completion after completion: padding
/// costs nothing there. Attention takes them to blocks and back. Where no group and no row is shorter than the others that is a
/// reshape; else an index. A slot without a row of its own holds a copy of a real one: finite, never taken back, so without gradient.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    prompts: usize,
    group: usize,
    width: usize,
    start: usize,
    rows: usize,
    /// The packed row of each slot, `[P·G·T]`.
    row_of: Option<Tensor<1, Int>>,
    /// The slot of each row, `[rows]`.
    slot_of: Option<Tensor<1, Int>>,
}

impl Layout {
    /// The layout of rows that begin at packed row `start`: for each prompt the lengths of its completions.
    pub(crate) fn new(start: usize, lengths: &[Vec<usize>], device: &Device) -> Self {
        let group = lengths.iter().map(Vec::len).max().unwrap_or(0);
        let width = lengths.iter().flatten().copied().max().unwrap_or(0);
        let rows = lengths.iter().flatten().sum();
        let mut layout = Self { prompts: lengths.len(), group, width, start, rows, row_of: None, slot_of: None };
        if rows == layout.slots() {
            return layout;
        }
        let (mut row_of, mut slot_of) = (Vec::with_capacity(layout.slots()), Vec::with_capacity(rows));
        let mut next = start;
        for completions in lengths {
            for member in 0..group {
                let length = completions.get(member).copied().unwrap_or(0);
                for position in 0..width {
                    if position < length {
                        slot_of.push(row_of.len() as i64);
                        row_of.push((next + position) as i64);
                    } else {
                        row_of.push(start as i64);
                    }
                }
                next += length;
            }
        }
        layout.row_of = Some(index(row_of, device));
        layout.slot_of = Some(index(slot_of, device));
        layout
    }

    fn slots(&self) -> usize {
        self.prompts * self.group * self.width
    }

    /// The number of positions T.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Rows `[R, heads · d]` to slots `[P·G·T, heads · d]`.
    fn take(&self, x: Tensor<2>) -> Tensor<2> {
        match &self.row_of {
            Some(rows) => x.select(0, rows.clone()), // [P·G·T, heads·d]
            None if self.rows == x.dims()[0] => x,
            None => x.narrow(0, self.start, self.rows), // [P·G·T, heads·d]
        }
    }

    /// Queries `[R, K·rep·d]` to `[P, K, G, rep·T, d]`: the rep query heads of a key head stand beside each other.
    pub(crate) fn queries(&self, x: Tensor<2>, key_heads: usize, d: usize) -> Tensor<5> {
        let (p, g, t) = (self.prompts, self.group, self.width);
        let rep = x.dims()[1] / (key_heads * d);
        let x: Tensor<6> = self.take(x).reshape([p, g, t, key_heads, rep, d]); // [P, G, T, K, rep, d]
        x.permute([0, 3, 1, 4, 2, 5]).reshape([p, key_heads, g, rep * t, d]) // [P, K, G, rep·T, d]
    }

    /// Keys or values `[R, K·d]` to `[P, K, G, T, d]`, without a copy where no index is needed.
    pub(crate) fn keys(&self, x: Tensor<2>, key_heads: usize, d: usize) -> Tensor<5> {
        let x: Tensor<5> = self.take(x).reshape([self.prompts, self.group, self.width, key_heads, d]); // [P, G, T, K, d]
        x.permute([0, 3, 1, 2, 4]) // [P, K, G, T, d]
    }

    /// What [`queries`](Self::queries) did, backwards: `[P, K, G, rep·T, d]` to `[rows, K·rep·d]`.
    pub(crate) fn rows(&self, x: Tensor<5>) -> Tensor<2> {
        let [p, k, g, q, d] = x.dims();
        let (t, rep) = (self.width, q / self.width);
        let x: Tensor<6> = x.reshape([p, k, g, rep, t, d]); // [P, K, G, rep, T, d]
        let x: Tensor<2> = x.permute([0, 2, 4, 1, 3, 5]).reshape([p * g * t, k * rep * d]); // [P·G·T, K·rep·d]
        match &self.slot_of {
            Some(slots) => x.select(0, slots.clone()), // [rows, K·rep·d]
            None => x,
        }
    }
}

/// An index on a device.
pub(crate) fn index(values: Vec<i64>, device: &Device) -> Tensor<1, Int> {
    let length = values.len();
    Tensor::from_data(TensorData::new(values, [length]), device) // [length]
}
