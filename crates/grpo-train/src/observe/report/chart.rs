//! Curves as SVG. No script: what a reader points at is shown by style alone.

use std::fmt::Write as _;

use super::columns::{Columns, Range};
use super::html::escape;
use super::scale::{Scale, number};
use crate::observe::run::Point;

/// Sizes in units of the drawing, which is stretched to the width of its card.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 200.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 34.0;
/// The most curves that can be told apart; style.css has as many colours.
pub const CURVES: usize = 8;
/// Up to so many columns have a dot each.
const DOTS: usize = 40;

/// One chart.
pub struct Chart {
    pub title: String,
    /// What it shows, in a line.
    pub note: String,
    pub unit: &'static str,
    pub curves: Vec<(String, Vec<Point>)>,
    pub form: Form,
}

/// How curves are laid out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Beside each other, on an axis that holds them.
    Free,
    /// Beside each other, on an axis that begins at 0.
    FromZero,
    /// On top of each other, as shares of a sum.
    Stacked,
}

impl Chart {
    /// The card with the chart. Nothing for curves without a point.
    pub fn draw(&self) -> String {
        let Some(columns) = Columns::of(self.curves.iter().map(|(_, points)| points.as_slice())) else { return String::new() };
        let values = columns.values(self.form == Form::Stacked);
        let (mut low, mut high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)));
        if self.form != Form::Free {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        if !low.is_finite() || !high.is_finite() {
            (low, high) = (0.0, 1.0);
        }
        let frame = Frame { x: Scale::steps(columns.first, columns.last), y: Scale::round(low, high) };
        let mut svg = String::new();
        frame.axes(&mut svg, self.unit);
        for curve in 0..self.curves.len() {
            match self.form {
                Form::Stacked => self.area(&mut svg, &frame, &columns, curve),
                _ => self.line(&mut svg, &frame, &columns, curve),
            }
        }
        self.tips(&mut svg, &frame, &columns);
        format!(
            "<figure class=\"card\"><figcaption><h3>{}</h3><p>{}</p>{}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">{svg}</svg></figure>\n",
            escape(&self.title),
            escape(&self.note),
            self.legend(),
            escape(&self.title),
        )
    }

    fn legend(&self) -> String {
        if self.curves.len() < 2 {
            return String::new();
        }
        let entry = |(index, (label, _)): (usize, &(String, _))| format!("<span><i class=\"k{index}\"></i>{}</span>", escape(label));
        format!("<p class=\"legend\">{}</p>", self.curves.iter().enumerate().map(entry).collect::<String>())
    }

    /// A curve: its range where columns hold several steps, its mean, and a running mean if it is alone and noisy.
    fn line(&self, svg: &mut String, frame: &Frame, columns: &Columns, curve: usize) {
        let cells: Vec<(f64, Range)> = columns.curve(curve).collect();
        if columns.width > 1 {
            let upper = cells.iter().map(|(step, cell)| frame.point(*step, cell.high));
            let lower = cells.iter().rev().map(|(step, cell)| frame.point(*step, cell.low));
            let _ = write!(svg, "<polygon class=\"band k{curve}\" points=\"{}\"/>", joined(upper.chain(lower)));
        }
        let mean = joined(cells.iter().map(|(step, cell)| frame.point(*step, cell.mean)));
        let alone = self.curves.len() == 1 && cells.len() > DOTS;
        let _ = write!(svg, "<polyline class=\"line k{curve}{}\" points=\"{mean}\"/>", if alone { " raw" } else { "" });
        if alone {
            let smooth = running_mean(&cells, cells.len() / 15);
            let _ = write!(
                svg,
                "<polyline class=\"line k{curve}\" points=\"{}\"/>",
                joined(smooth.map(|(step, mean)| frame.point(step, mean)))
            );
        }
        if cells.len() <= DOTS {
            for (step, cell) in &cells {
                let (x, y) = frame.point(*step, cell.mean);
                let _ = write!(svg, "<circle class=\"dot k{curve}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2\"/>");
            }
        }
        for step in columns.not_finite(curve) {
            let (x, _) = frame.point(step, 0.0);
            let _ = write!(svg, "<text class=\"nan\" x=\"{x:.1}\" y=\"{}\">×</text>", TOP + 8.0);
        }
    }

    /// A share of the sum: between what lies below it and that with it.
    fn area(&self, svg: &mut String, frame: &Frame, columns: &Columns, curve: usize) {
        let below = columns.stacked(curve).into_iter().map(|(step, sum)| frame.point(step, sum)).rev();
        let with = columns.stacked(curve + 1).into_iter().map(|(step, sum)| frame.point(step, sum));
        let _ = write!(svg, "<polygon class=\"area k{curve}\" points=\"{}\"/>", joined(with.chain(below)));
    }

    /// For each column a strip that shows its values when it is pointed at.
    fn tips(&self, svg: &mut String, frame: &Frame, columns: &Columns) {
        for column in 0..columns.count() {
            let mut lines = vec![columns.title(column)];
            for (curve, (label, _)) in self.curves.iter().enumerate() {
                let Some(cell) = columns.cell(column, curve) else { continue };
                let label = if self.curves.len() < 2 { String::new() } else { format!("{label} ") };
                let range = if cell.low < cell.high { format!(" ({} to {})", number(cell.low), number(cell.high)) } else { String::new() };
                lines.push(format!("{label}{}{range}", number(cell.mean)));
            }
            if lines.len() < 2 {
                continue;
            }
            let (x, half) = (frame.point(columns.middle(column), 0.0).0, frame.strip(columns.width) / 2.0);
            let wide = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0) as f64 * 6.0 + 10.0;
            let tall = lines.len() as f64 * 13.0 + 6.0;
            // On the side where there is room, and within the drawing.
            let left = if x < WIDTH / 2.0 { x + 8.0 } else { x - 8.0 - wide };
            let left = left.min(WIDTH - wide).max(0.0);
            let _ = write!(
                svg,
                "<g class=\"p\"><rect class=\"hit\" x=\"{:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{}\"/><path class=\"rule\" d=\"M{x:.1} {TOP}V{}\"/><g class=\"tip\"><rect x=\"{left:.1}\" y=\"{TOP}\" width=\"{wide:.0}\" height=\"{tall}\" rx=\"3\"/><text y=\"{TOP}\">",
                x - half,
                2.0 * half,
                HEIGHT - TOP - BOTTOM,
                HEIGHT - BOTTOM,
            );
            for line in lines {
                let _ = write!(svg, "<tspan x=\"{:.1}\" dy=\"13\">{}</tspan>", left + 5.0, escape(&line));
            }
            svg.push_str("</text></g></g>");
        }
    }
}

/// Where things stand in the drawing.
struct Frame {
    x: Scale,
    y: Scale,
}

impl Frame {
    fn point(&self, step: f64, value: f64) -> (f64, f64) {
        (LEFT + self.x.place(step) * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - self.y.place(value) * (HEIGHT - TOP - BOTTOM))
    }

    /// How wide so many steps are.
    fn strip(&self, steps: u64) -> f64 {
        steps as f64 / (self.x.high - self.x.low) * (WIDTH - LEFT - RIGHT)
    }

    fn axes(&self, svg: &mut String, unit: &str) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for mark in &self.y.marks {
            let (_, y) = self.point(self.x.low, *mark);
            let label = number(if mark.abs() < 1e-12 * self.y.high.abs().max(1.0) { 0.0 } else { *mark });
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/><text class=\"mark y\" x=\"{}\" y=\"{:.1}\">{label}</text>",
                LEFT - 5.0,
                y + 3.5
            );
        }
        for mark in &self.x.marks {
            let (x, _) = self.point(*mark, self.y.low);
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{x:.1} {bottom}v4\"/><text class=\"mark x\" x=\"{x:.1}\" y=\"{}\">{}</text>",
                bottom + 15.0,
                number(*mark)
            );
        }
        let _ = write!(svg, "<text class=\"mark x\" x=\"{}\" y=\"{}\">step</text>", (LEFT + right) / 2.0, HEIGHT - 4.0);
        let middle = (TOP + bottom) / 2.0;
        let _ = write!(svg, "<text class=\"mark x\" transform=\"translate(10 {middle}) rotate(-90)\">{}</text>", escape(unit));
    }
}

fn joined(points: impl Iterator<Item = (f64, f64)>) -> String {
    points.map(|(x, y)| format!("{x:.1},{y:.1} ")).collect()
}

/// Means over so many columns before and behind.
fn running_mean(cells: &[(f64, Range)], reach: usize) -> impl Iterator<Item = (f64, f64)> + '_ {
    cells.iter().enumerate().map(move |(at, (step, _))| {
        let near = cells.iter().take(at + reach + 1).skip(at.saturating_sub(reach));
        let (count, sum) = near.fold((0.0, 0.0), |(count, sum), (_, cell)| (count + 1.0, sum + cell.mean));
        (*step, sum / count)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<Point>) -> Chart {
        let curves = vec![("a<b>".to_owned(), points.clone()), ("other".to_owned(), points)];
        Chart { title: "Reward".to_owned(), note: String::new(), unit: "nats", curves, form: Form::FromZero }
    }

    #[test]
    fn labels_are_escaped_and_every_step_has_its_values_to_point_at() {
        let svg = chart(vec![(0, 0.25), (1, 0.75)]).draw();
        assert!(svg.contains("a&lt;b&gt; 0.25") && svg.contains("step 1") && svg.contains("nats") && !svg.contains("a<b>"), "{svg}");
    }

    #[test]
    fn a_lone_point_a_flat_curve_and_values_that_are_not_finite_are_drawn_without_nan_in_the_drawing() {
        for points in [vec![(5, 1.0)], vec![(0, 0.0), (1, 0.0)], vec![(0, 1.0), (1, f64::NAN), (2, f64::INFINITY)], vec![(3, f64::NAN)]] {
            let svg = chart(points.clone()).draw();
            assert!(svg.contains("<svg") && !svg.contains("NaN") && !svg.contains("inf"), "{points:?}: {svg}");
        }
    }

    #[test]
    fn no_point_is_no_chart() {
        assert_eq!(chart(Vec::new()).draw(), "");
    }

    #[test]
    fn a_long_run_takes_no_more_room_than_a_short_one() {
        let long = chart((0..100_000).map(|step| (step, (step as f64 / 1e4).sin())).collect()).draw();
        assert!(long.len() < 120_000, "{} bytes", long.len());
        assert!(long.contains("steps 0 to"), "columns hold several steps");
    }
}
