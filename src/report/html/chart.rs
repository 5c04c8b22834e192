//! Line charts as SVG, with what their tooltips say.
//!
//! plotters draws lines, grid and labels. Scales and ticks are chosen here, so that its logarithmic scale, which fails on
//! some ranges, is not needed: a logarithmic axis is a linear one of logarithms. Colours stand for themes: style.css
//! replaces them by name. Each chart is drawn twice, for wide and for narrow screens, since text that shrinks with its chart
//! cannot be read on a phone.

use std::ops::Range;

use maud::{Markup, PreEscaped, html};
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::{
    ChartBuilder, ChartContext, Circle, Color, DrawingAreaErrorKind, IntoDrawingArea, IntoFont, LineSeries,
    PathElement, RGBColor, SVGBackend, ShapeStyle, TextStyle,
};
use serde::Serialize;

use crate::report::figures::grouped;

/// Pixels of the drawing for one of the page: plotters knows whole ones only.
const SCALE: u32 = 2;
const WIDE: (u32, u32) = (860, 260);
const NARROW: (u32, u32) = (358, 250);

/// The size that plotters draws as about 12 pixels.
const TEXT: u32 = 15;
/// Pixels that a label below the chart needs.
const ROOM_OF_LABEL: usize = 40;

/// What style.css replaces: text, grid, and lines in their order.
const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
const COLOURS: [RGBColor; 6] = [
    RGBColor(0x1b, 0x5e, 0xa8),
    RGBColor(0xb4, 0x53, 0x09),
    RGBColor(0x7a, 0x28, 0x8a),
    RGBColor(0x0f, 0x76, 0x6e),
    RGBColor(0xb3, 0x1d, 0x4a),
    RGBColor(0x5c, 0x61, 0x10),
];
/// Points are marked where there are no more than these.
const MOST_MARKED: usize = 24;
/// The most lines that a chart can have.
pub const MOST_LINES: usize = COLOURS.len();

/// An axis: its ends and its ticks, in the places where they are drawn.
#[derive(Clone)]
pub struct Axis {
    name: &'static str,
    low: f64,
    high: f64,
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From 0 to beyond the greatest value, with ticks at round numbers.
    pub fn linear(name: &'static str, greatest: f64) -> Axis {
        let high = if greatest.is_finite() && greatest > 0.0 { greatest } else { 1.0 };
        let power = 10_f64.powf((high / 5.0).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
        let step = steps.into_iter().find(|step| high / step <= 6.0).unwrap_or(high);
        let decimals = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
        let count = (high / step).ceil() as u32;
        let ticks = (0..=count).map(|tick| f64::from(tick) * step).map(|at| (at, grouped(at, decimals)));
        Axis { name, low: 0.0, high: f64::from(count) * step, ticks: ticks.collect() }
    }

    /// As `linear`, but ends where the values do.
    pub fn time(greatest_s: f64) -> Axis {
        let axis = Axis::linear("seconds", greatest_s);
        let high = if greatest_s > 0.0 { greatest_s } else { axis.high };
        Axis { high, ticks: axis.ticks.into_iter().filter(|(at, _)| *at <= high).collect(), ..axis }
    }

    /// Of logarithms, by the values that are above 0.
    pub fn logarithmic(name: &'static str, values: impl Iterator<Item = f64>) -> Axis {
        let (least, most) = values
            .filter(|value| value.is_finite() && *value > 0.0)
            .fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(value), most.max(value)));
        let (low, high) = if least > most { (0.0, 1.0) } else { (least.log10().floor(), most.log10().ceil()) };
        let high = high.max(low + 1.0);
        // With few decades there is room for ticks inside of them.
        let inside: &[f64] = if high - low <= 2.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let decades = low as i32..=high as i32;
        let ticks = decades.flat_map(|decade| inside.iter().map(move |factor| factor * 10_f64.powi(decade)));
        let named = |value: f64| (value.log10(), grouped(value, (-value.log10().floor()).clamp(0.0, 6.0) as usize));
        let ticks = ticks.map(named).filter(|(at, _)| *at <= high + 1e-9).collect();
        Axis { name, low, high, ticks }
    }

    /// With a tick at each of these places, which ascend.
    pub fn of_places(name: &'static str, places: &[(f64, String)]) -> Axis {
        let [low, high] = [places.first(), places.last()].map(|end| end.map_or(0.0, |(at, _)| *at));
        // Some room, so that no point is on the chart's edge.
        let room = ((high - low) / 40.0).max(0.05);
        Axis { name, low: low - room, high: high + room, ticks: places.to_vec() }
    }

    /// Percentiles by the logarithm of what is beyond them, up to this place.
    pub fn percentiles(high: f64) -> Axis {
        let all = ["0", "50", "90", "99", "99.9", "99.99", "99.999", "99.9999", "99.99999"];
        let place = |name: &str| name.parse().map_or(0.0, place_of);
        let ticks =
            all.iter().map(|name| (place(name), name.to_string())).filter(|(at, _)| *at <= high + 1e-9).collect();
        Axis { name: "percentile", low: 0.0, high, ticks }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (first, last): (i32, i32)) -> i32 {
        let part = (value - self.low) / (self.high - self.low);
        first + (part * f64::from(last - first)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // What plotters asks for second are lines between the ticks.
        if hint.weight().allow_light_points() {
            return Vec::new();
        }
        let step = self.ticks.len().div_ceil(hint.max_num_points().max(1)).max(1);
        self.ticks.iter().step_by(step).map(|(at, _)| *at).collect()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(at: &f64) -> String {
        at.to_string()
    }

    fn format_ext(&self, at: &f64) -> String {
        let tick = self.ticks.iter().find(|(tick, _)| tick == at);
        tick.map_or_else(String::new, |(_, label)| label.clone())
    }
}

/// Where a percentile stands on its axis.
pub fn place_of(percentile: f64) -> f64 {
    -(1.0 - percentile / 100.0).log10()
}

#[derive(Clone)]
pub struct Line {
    pub name: String,
    /// One for each place on the horizontal axis; `None` is a gap.
    pub points: Vec<Option<Point>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Its place on the vertical axis.
    pub at: f64,
    /// Those of the least and greatest value that it stands for, if it is a mean.
    pub spread: Option<(f64, f64)>,
    /// What a tooltip says.
    pub said: String,
}

pub struct Chart {
    pub title: String,
    /// What a reader should know of it.
    pub note: String,
    pub x: Axis,
    pub y: Axis,
    /// Each place on the horizontal axis and what a tooltip says.
    pub places: Vec<(f64, String)>,
    pub lines: Vec<Line>,
}

/// What script.js shows at a place, counted in shares of the drawing's width.
#[derive(Serialize)]
struct Tooltip<'a> {
    head: &'a str,
    wide: f64,
    narrow: f64,
    lines: Vec<(&'a str, &'a str)>,
}

/// A drawing and where its horizontal axis begins and ends, as shares of its width.
struct Drawing {
    svg: String,
    begin: f64,
    end: f64,
}

impl Chart {
    pub fn figure(&self) -> Markup {
        let (Ok(wide), Ok(narrow)) = (self.draw(WIDE), self.draw(NARROW)) else {
            // Writing into memory does not fail.
            return html! {};
        };
        let tooltips = serde_json::to_string(&self.tooltips(&wide, &narrow)).unwrap_or_default();
        let summary = self.summary();
        html! {
            figure.chart {
                figcaption { strong { (self.title) } " " span.note { (self.note) } }
                ul.legend {
                    @for (number, line) in self.lines.iter().enumerate() { li class={ "line" (number + 1) } { (line.name) } }
                }
                div.plot tabindex="0" role="group" data-tooltips=(tooltips)
                    aria-label={ (self.title) ": left and right arrow keys read the values, and the table below has them all" } {
                    div.wide role="img" aria-label=(summary) { (PreEscaped(&wide.svg)) }
                    div.narrow role="img" aria-label=(summary) { (PreEscaped(&narrow.svg)) }
                    div.cursor hidden {}
                    div.tooltip role="status" hidden {}
                }
                (self.table())
            }
        }
    }

    /// What the lines look like, for those who do not see them.
    fn summary(&self) -> String {
        let range = |line: &Line| {
            let points = || line.points.iter().flatten();
            let least = points().min_by(|a, b| a.at.total_cmp(&b.at))?;
            let most = points().max_by(|a, b| a.at.total_cmp(&b.at))?;
            Some(format!("{} from {} to {}", line.name, least.said, most.said))
        };
        let ranges: Vec<String> = self.lines.iter().filter_map(range).collect();
        format!("Line chart of {} places. {}: {}", self.places.len(), self.title, ranges.join("; "))
    }

    fn table(&self) -> Markup {
        html! {
            details {
                summary { "Values of this chart" }
                div.scroll tabindex="0" role="region" aria-label={ "Values of " (self.title) } {
                    table {
                        caption.unseen { (self.title) }
                        thead { tr { th scope="col" { (self.x.name) } @for line in &self.lines { th scope="col" { (line.name) } } } }
                        tbody {
                            @for (number, (_, head)) in self.places.iter().enumerate() {
                                tr { th scope="row" { (head) } @for line in &self.lines { td { (said(line, number)) } } }
                            }
                        }
                    }
                }
            }
        }
    }

    fn tooltips(&self, wide: &Drawing, narrow: &Drawing) -> Vec<Tooltip<'_>> {
        let share = |x: f64, drawing: &Drawing| {
            let part = (x - self.x.low) / (self.x.high - self.x.low);
            ((drawing.begin + part * (drawing.end - drawing.begin)) * 1e4).round() / 1e4
        };
        self.places
            .iter()
            .enumerate()
            .map(|(number, (x, head))| Tooltip {
                head,
                wide: share(*x, wide),
                narrow: share(*x, narrow),
                lines: self.lines.iter().map(|line| (line.name.as_str(), said(line, number))).collect(),
            })
            .collect()
    }

    fn draw(&self, (width, height): (u32, u32)) -> Result<Drawing, DrawingAreaErrorKind<std::io::Error>> {
        let mut svg = String::new();
        let size = (width * SCALE, height * SCALE);
        let (begin, end);
        {
            let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            let mut chart = ChartBuilder::on(&area)
                .margin(10 * SCALE)
                .margin_right(18 * SCALE)
                .x_label_area_size(34 * SCALE)
                .y_label_area_size(62 * SCALE)
                .build_cartesian_2d(self.x.clone(), self.y.clone())?;
            let text = TextStyle::from(("sans-serif", TEXT * SCALE).into_font()).color(&INK);
            chart
                .configure_mesh()
                .label_style(text.clone())
                .axis_desc_style(text)
                .axis_style(ShapeStyle::from(&INK).stroke_width(SCALE))
                .bold_line_style(ShapeStyle::from(&GRID).stroke_width(SCALE))
                .x_desc(self.x.name)
                .y_desc(self.y.name)
                .x_labels(width as usize / ROOM_OF_LABEL)
                .draw()?;
            for (line, colour) in self.lines.iter().zip(COLOURS) {
                self.draw_line(&mut chart, line, colour)?;
            }
            let pixels = chart.plotting_area().get_pixel_range().0;
            begin = f64::from(pixels.start) / f64::from(size.0);
            end = f64::from(pixels.end) / f64::from(size.0);
            area.present()?;
        }
        Ok(Drawing { svg, begin, end })
    }

    /// Each part of a line between gaps, and a dot for each point where they are few, or where it has no neighbour.
    fn draw_line<'a>(
        &self,
        chart: &mut ChartContext<'a, SVGBackend<'a>, Cartesian2d<Axis, Axis>>,
        line: &Line,
        colour: RGBColor,
    ) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
        let points: Vec<Option<(f64, f64)>> =
            self.places.iter().zip(&line.points).map(|((x, _), point)| Some((*x, point.as_ref()?.at))).collect();
        for part in points.split(|point| point.is_none()) {
            let part: Vec<(f64, f64)> = part.iter().flatten().copied().collect();
            if part.len() == 1 || self.places.len() <= MOST_MARKED {
                chart.draw_series(part.iter().map(|dot| Circle::new(*dot, 3 * SCALE, colour.filled())))?;
            }
            if part.len() > 1 {
                chart.draw_series(LineSeries::new(part, ShapeStyle::from(&colour).stroke_width(2 * SCALE)))?;
            }
        }
        let spread = |((x, _), point): (&(f64, String), &Option<Point>)| {
            let (low, high) = point.as_ref()?.spread?;
            Some(PathElement::new([(*x, low), (*x, high)], ShapeStyle::from(&colour).stroke_width(2 * SCALE)))
        };
        chart.draw_series(self.places.iter().zip(&line.points).filter_map(spread))?;
        Ok(())
    }
}

fn said(line: &Line, number: usize) -> &str {
    line.points.get(number).and_then(|point| point.as_ref()).map_or("-", |point| &point.said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_and_hold_all_values() {
        let axis = Axis::linear("tps", 1234.0);
        assert_eq!((labels(&axis), axis.high), (vec!["0", "500", "1,000", "1,500"], 1500.0));
        assert_eq!(labels(&Axis::linear("tps", 0.07)), ["0.00", "0.02", "0.04", "0.06", "0.08"]);
        assert_eq!(Axis::linear("tps", 0.0).high, 1.0);
        assert_eq!(Axis::linear("tps", f64::NAN).high, 1.0);
        let axis = Axis::time(7.5);
        assert_eq!((labels(&axis), axis.high), (vec!["0", "2", "4", "6"], 7.5));
        let axis = Axis::logarithmic("ms", [0.0, 1.5, 2.0].into_iter());
        assert_eq!((labels(&axis), axis.low, axis.high), (vec!["1", "2", "5", "10"], 0.0, 1.0));
        let axis = Axis::logarithmic("ms", [0.012, 3000.0].into_iter());
        assert_eq!(labels(&axis), ["0.01", "0.1", "1", "10", "100", "1,000", "10,000"]);
        assert_eq!(Axis::logarithmic("ms", std::iter::empty()).high, 1.0);
        assert_eq!(labels(&Axis::percentiles(3.0)), ["0", "50", "90", "99", "99.9"]);
    }

    #[test]
    fn a_gap_parts_a_line_and_points_are_dots_where_they_are_few_or_lonely() {
        let point = |at: f64| Some(Point { at, spread: None, said: at.to_string() });
        let line = Line { name: "tps".into(), points: vec![point(1.0), point(2.0), None, point(3.0), None] };
        let chart = |count: u32| Chart {
            title: "t".into(),
            note: String::new(),
            x: Axis::time(f64::from(count)),
            y: Axis::linear("tps", 3.0),
            places: (0..count).map(|x| (f64::from(x), x.to_string())).collect(),
            lines: vec![line.clone()],
        };
        let drawn = |count| {
            let svg = chart(count).draw(WIDE).unwrap().svg;
            (
                svg.matches("<circle").count(),
                svg.matches("<polyline fill=\"none\" opacity=\"1\" stroke=\"#1B5EA8\"").count(),
            )
        };
        assert_eq!([drawn(5), drawn(MOST_MARKED as u32 + 1)], [(3, 1), (1, 1)]);
        let page = chart(5).figure().into_string();
        assert!(page.contains("aria-label=\"Line chart of 5 places. t: tps from 1 to 3\""), "{page}");
        assert!(page.contains("<th scope=\"row\">2</th><td>-</td>"), "{page}");
    }
}
