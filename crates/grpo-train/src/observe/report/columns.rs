//! Steps in columns: a long run has more steps than a chart has room for.

use crate::observe::run::Point;

/// The most columns of a chart.
const MOST: u64 = 140;

/// What a column holds of a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
}

/// Curves in columns of equally many steps.
pub struct Columns {
    /// The first and last step of any curve.
    pub first: u64,
    pub last: u64,
    /// Steps a column.
    pub width: u64,
    /// For each curve its columns.
    cells: Vec<Vec<Cell>>,
}

#[derive(Clone, Copy)]
struct Cell {
    sum: f64,
    count: f64,
    low: f64,
    high: f64,
    not_finite: bool,
}

impl Cell {
    const EMPTY: Self = Self { sum: 0.0, count: 0.0, low: f64::INFINITY, high: f64::NEG_INFINITY, not_finite: false };

    fn take(&mut self, value: f64) {
        if value.is_finite() {
            *self = Self { sum: self.sum + value, count: self.count + 1.0, low: self.low.min(value), high: self.high.max(value), ..*self };
        } else {
            self.not_finite = true;
        }
    }

    fn range(&self) -> Option<Range> {
        (self.count > 0.0).then(|| Range { mean: self.sum / self.count, low: self.low, high: self.high })
    }
}

impl Columns {
    /// `None` without any point.
    pub fn of<'a>(curves: impl Iterator<Item = &'a [Point]> + Clone) -> Option<Self> {
        let steps = curves.clone().flatten().map(|(step, _)| *step);
        let (first, last) = (steps.clone().min()?, steps.max()?);
        let width = (last - first) / MOST + 1;
        let count = ((last - first) / width + 1) as usize;
        let cells = curves.map(|points| {
            let mut cells = vec![Cell::EMPTY; count];
            for (step, value) in points {
                if let Some(cell) = cells.get_mut(((step - first) / width) as usize) {
                    cell.take(*value);
                }
            }
            cells
        });
        Some(Self { first, last, width, cells: cells.collect() })
    }

    /// How many columns there are.
    pub fn count(&self) -> usize {
        self.cells.first().map_or(0, Vec::len)
    }

    /// A column of a curve, if it holds a finite value.
    pub fn cell(&self, column: usize, curve: usize) -> Option<Range> {
        self.cells.get(curve)?.get(column)?.range()
    }

    /// The columns of a curve that hold a finite value, at their middle steps.
    pub fn curve(&self, curve: usize) -> impl Iterator<Item = (f64, Range)> + '_ {
        (0..self.count()).filter_map(move |column| Some((self.middle(column), self.cell(column, curve)?)))
    }

    /// The middle steps of the columns where a curve holds a value that is not finite.
    pub fn not_finite(&self, curve: usize) -> impl Iterator<Item = f64> + '_ {
        let cells = self.cells.get(curve).into_iter().flatten().enumerate();
        cells.filter(|(_, cell)| cell.not_finite).map(|(column, _)| self.middle(column))
    }

    /// The sums of the first so many curves, in the columns that any curve has; an absent value adds nothing.
    pub fn stacked(&self, curves: usize) -> Vec<(f64, f64)> {
        let sum = |column: usize| (0..curves).filter_map(|curve| self.cell(column, curve)).map(|cell| cell.mean).sum();
        let held = |column: &usize| (0..self.cells.len()).any(|curve| self.cell(*column, curve).is_some());
        (0..self.count()).filter(held).map(|column| (self.middle(column), sum(column))).collect()
    }

    /// All that the axis must hold.
    pub fn values(&self, stacked: bool) -> Vec<f64> {
        if stacked {
            return self.stacked(self.cells.len()).into_iter().map(|(_, sum)| sum).collect();
        }
        (0..self.cells.len()).flat_map(|curve| self.curve(curve)).flat_map(|(_, cell)| [cell.low, cell.high]).collect()
    }

    /// The middle of a column's steps.
    pub fn middle(&self, column: usize) -> f64 {
        let (begin, end) = self.ends(column);
        (begin + end) as f64 / 2.0
    }

    /// Which steps a column holds, in words.
    pub fn title(&self, column: usize) -> String {
        let (begin, end) = self.ends(column);
        if begin == end { format!("step {begin}") } else { format!("steps {begin} to {end}") }
    }

    fn ends(&self, column: usize) -> (u64, u64) {
        let begin = self.first + column as u64 * self.width;
        (begin, (begin + self.width - 1).min(self.last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_holds_the_mean_and_the_range_of_its_steps() {
        let points: Vec<Point> = (0..281).map(|step| (step, step as f64)).collect();
        let columns = Columns::of([points.as_slice()].into_iter()).unwrap();
        assert_eq!((columns.width, columns.count(), columns.title(0)), (3, 94, "steps 0 to 2".to_owned()));
        assert_eq!(columns.cell(1, 0), Some(Range { mean: 4.0, low: 3.0, high: 5.0 }));
        assert_eq!((columns.middle(93), columns.title(93)), (279.5, "steps 279 to 280".to_owned()));
    }

    #[test]
    fn absent_and_infinite_values_leave_a_column_empty_and_add_nothing_to_a_sum() {
        let (a, b) = ([(0, 1.0), (2, f64::INFINITY)], [(0, 2.0), (1, 3.0), (2, 4.0)]);
        let columns = Columns::of([a.as_slice(), b.as_slice()].into_iter()).unwrap();
        assert_eq!((columns.cell(1, 0), columns.cell(2, 0)), (None, None));
        assert_eq!(columns.not_finite(0).collect::<Vec<_>>(), [2.0]);
        assert_eq!(columns.stacked(2), [(0.0, 3.0), (1.0, 3.0), (2.0, 4.0)]);
    }
}
