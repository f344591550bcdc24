//! Nested lists with rows of equal length.

use serde::Deserialize;

/// A matrix, row after row.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Vec<Vec<f64>>")]
pub(crate) struct Matrix {
    pub rows: usize,
    pub cols: usize,
    pub data: Vec<f64>,
}

impl TryFrom<Vec<Vec<f64>>> for Matrix {
    type Error = String;

    fn try_from(rows: Vec<Vec<f64>>) -> Result<Self, String> {
        let cols = rows.first().map_or(0, Vec::len);
        if cols == 0 || rows.iter().any(|row| row.len() != cols) {
            return Err("a matrix must have rows of one length, at least 1".to_owned());
        }
        Ok(Self { rows: rows.len(), cols, data: rows.concat() })
    }
}

impl Matrix {
    pub(crate) fn shape(&self) -> [usize; 2] {
        [self.rows, self.cols]
    }

    pub(crate) fn row(&self, row: usize) -> &[f64] {
        &self.data[row * self.cols..(row + 1) * self.cols]
    }

    pub(crate) fn at(&self, row: usize, col: usize) -> f64 {
        self.data[row * self.cols + col]
    }

    /// The columns of a row where this matrix, a mask, is 1.
    pub(crate) fn counted(&self, row: usize) -> impl Iterator<Item = usize> + '_ {
        self.row(row).iter().enumerate().filter(|(_, m)| **m != 0.0).map(|(col, _)| col)
    }

    /// All places where this matrix, a mask, is 1.
    pub(crate) fn places(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.rows).flat_map(|row| self.counted(row).map(move |col| (row, col)))
    }

    pub(crate) fn same_shape(&self, what: &str, other: &Self) -> Result<(), String> {
        if self.shape() == other.shape() {
            Ok(())
        } else {
            Err(format!("{what} has shape {:?}, expected {:?}", other.shape(), self.shape()))
        }
    }
}

/// A stack of matrices: `[rows, cols, depth]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Vec<Matrix>")]
pub(crate) struct Cube {
    pub rows: usize,
    pub cols: usize,
    pub depth: usize,
    pub data: Vec<f64>,
}

impl TryFrom<Vec<Matrix>> for Cube {
    type Error = String;

    fn try_from(layers: Vec<Matrix>) -> Result<Self, String> {
        let Some(shape) = layers.first().map(Matrix::shape) else {
            return Err("a stack must have at least one matrix".to_owned());
        };
        if layers.iter().any(|layer| layer.shape() != shape) {
            return Err("a stack must have matrices of one shape".to_owned());
        }
        let data = layers.iter().flat_map(|layer| layer.data.iter().copied()).collect();
        Ok(Self { rows: layers.len(), cols: shape[0], depth: shape[1], data })
    }
}

impl Cube {
    pub(crate) fn shape(&self) -> [usize; 3] {
        [self.rows, self.cols, self.depth]
    }
}
