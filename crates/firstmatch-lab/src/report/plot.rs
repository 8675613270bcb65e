//! Plots as SVG, whose colours are variables of the page.
//!
//! The variables are `--s0` to `--s7` for engines, `--ref` for yardsticks, `--text`, `--axis`, `--grid` and `--bg`.

use anyhow::anyhow;
use plotters::backend::SVGBackend;
use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, EmptyElement, PathElement, Polygon, Rectangle, Text};
use plotters::prelude::Cartesian2d;
use plotters::series::{DashedLineSeries, LineSeries};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, RGBColor, ShapeStyle, TextStyle};

use super::scale::{Axis, Scale};

/// Drawing: an `svg` element.
#[derive(Clone, Debug)]
pub(crate) struct Svg(pub(crate) String);

/// Colour and shape of marks; each alone tells engines apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    ink: u8,
    shape: u8,
}

const REFERENCE: u8 = 8;
const TEXT: u8 = 9;
const AXIS: u8 = 10;
const GRID: u8 = 11;
const BACKGROUND: u8 = 12;
const VARIABLES: [&str; 13] =
    ["--s0", "--s1", "--s2", "--s3", "--s4", "--s5", "--s6", "--s7", "--ref", "--text", "--axis", "--grid", "--bg"];

/// Size in units of half a pixel on a phone, so that positions between pixels exist.
const WIDTH: u32 = 720;
const HEIGHT: u32 = 500;
const FONT: f64 = 31.0;
const MARK: i32 = 9;

impl Look {
    /// Returns the look of the n-th engine; colours are reused with other shapes.
    pub(crate) fn engine(number: usize) -> Self {
        let number = number % 64;
        Self { ink: (number % 8) as u8, shape: ((number + number / 8) % 8) as u8 }
    }

    /// Returns the look of a line between points of several looks.
    pub(crate) fn front() -> Self {
        Self { ink: AXIS, shape: 0 }
    }

    /// Returns the look of the n-th yardstick.
    pub(crate) fn yardstick(number: usize) -> Self {
        Self { ink: REFERENCE, shape: 4 + (number % 4) as u8 }
    }

    fn line(self) -> ShapeStyle {
        ink(self.ink).stroke_width(4)
    }

    fn is_yardstick(self) -> bool {
        self.ink == REFERENCE
    }
}

/// Returns the colour that stands for a variable until the drawing is done.
fn ink(variable: u8) -> RGBColor {
    RGBColor(1, 2, variable)
}

fn text(size: f64, variable: u8, h: HPos, v: VPos) -> TextStyle<'static> {
    let style = TextStyle::from(("sans-serif", size));
    TextStyle { color: ink(variable).to_backend_color(), pos: Pos::new(h, v), ..style }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Plane<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Scale, Scale>>;

fn draw(
    title: &str,
    (width, height): (u32, u32),
    with: impl FnOnce(&Area<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<Svg> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
        with(&area)?;
        area.present().map_err(failed)?;
    }
    for (number, variable) in VARIABLES.iter().enumerate() {
        svg = svg.replace(&format!("\"#0102{number:02X}\""), &format!("\"var({variable})\""));
    }
    let inside = svg.split_once('>').map_or("", |(_, inside)| inside);
    let title = maud::html! { title { (title) } }.into_string();
    Ok(Svg(format!("<svg class=\"plot\" viewBox=\"0 0 {width} {height}\" role=\"img\">{title}{inside}")))
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("drawing: {error}")
}

fn plane<'a, 'b>(area: &'a Area<'b>, (x, y): (Scale, Scale), left: u32) -> anyhow::Result<Plane<'a, 'b>> {
    ChartBuilder::on(area)
        .margin_top(16)
        .margin_right(44)
        .margin_left(12)
        .x_label_area_size(80)
        .y_label_area_size(left)
        .build_cartesian_2d(x, y)
        .map_err(failed)
}

fn mesh(plane: &mut Plane<'_, '_>, x: &str, y: &str) -> anyhow::Result<()> {
    let labels = text(FONT * 0.94, TEXT, HPos::Center, VPos::Center);
    let mut mesh = plane.configure_mesh();
    mesh.light_line_style(ink(BACKGROUND).stroke_width(0)).bold_line_style(ink(GRID).stroke_width(2));
    mesh.max_light_lines(0).axis_style(ink(AXIS).stroke_width(2)).label_style(labels.clone());
    if y.is_empty() {
        mesh.disable_y_axis();
    }
    mesh.axis_desc_style(labels).x_desc(x).y_desc(y).draw().map_err(failed)
}

/// Horizontal bar.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) label: String,
    /// Text at the right, above the bar.
    pub(crate) note: String,
    pub(crate) value: f64,
    /// Ends of the whisker.
    pub(crate) spread: Option<(f64, f64)>,
    pub(crate) look: Look,
    /// Whether it is drawn without filling, because its figure is not reliable.
    pub(crate) hollow: bool,
}

/// Line across all bars.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    pub(crate) value: f64,
    pub(crate) look: Look,
}

/// Draws horizontal bars below their labels; references beyond the axis are left out.
pub(crate) fn bars(title: &str, axis: &Axis, bars: &[Bar], references: &[Reference]) -> anyhow::Result<Svg> {
    let ends =
        |bar: &Bar| [bar.value, bar.spread.map_or(bar.value, |spread| spread.0), bar.spread.map_or(0.0, |s| s.1)];
    let values = bars.iter().flat_map(ends).filter(|&value| axis.has(value) && value > 0.0);
    let x = Scale::around(axis, values);
    let (from, to) = (x.from(), x.to());
    let height = 100 + 80 * bars.len() as u32;
    draw(title, (WIDTH, height), |area| {
        let mut plane = plane(area, (x, Scale::rows(bars.len())), 32)?;
        mesh(&mut plane, &axis.title, "")?;
        let on = |value: f64| value.clamp(from, to);
        for (row, bar) in bars.iter().enumerate().filter(|(_, bar)| axis.has(bar.value)) {
            let at = |share: f64| row as f64 + share;
            let corners = [(from, at(0.53)), (on(bar.value), at(0.88))];
            if bar.hollow {
                let [(left, top), (right, bottom)] = corners;
                let around = vec![(left, top), (right, top), (right, bottom), (left, bottom), (left, top)];
                shape(&plane, PathElement::new(around, bar.look.line()))?;
            } else {
                shape(&plane, Rectangle::new(corners, ink(bar.look.ink).filled()))?;
            }
            if let Some((low, high)) = bar.spread.filter(|(low, high)| low < high) {
                let stroke = ink(TEXT).stroke_width(3);
                for [one, other] in
                    [[(low, 0.7), (high, 0.7)], [(low, 0.62), (low, 0.78)], [(high, 0.62), (high, 0.78)]]
                {
                    let end = |(value, share): (f64, f64)| (on(value), at(share));
                    shape(&plane, PathElement::new(vec![end(one), end(other)], stroke))?;
                }
            }
            shape(&plane, Text::new(bar.label.clone(), (from, at(0.44)), text(FONT, TEXT, HPos::Left, VPos::Bottom)))?;
            shape(&plane, Text::new(bar.note.clone(), (to, at(0.44)), text(FONT, TEXT, HPos::Right, VPos::Bottom)))?;
            for reference in references.iter().filter(|reference| (from..=to).contains(&reference.value)) {
                let line = vec![(reference.value, at(0.48)), (reference.value, at(0.93))];
                // The gap around the line makes it visible on a bar.
                shape(&plane, PathElement::new(line.clone(), ink(BACKGROUND).stroke_width(10)))?;
                dashed(&mut plane, line, reference.look)?;
            }
        }
        Ok(())
    })
}

/// Form in which a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Marks.
    Points,
    /// Small pale marks.
    Pale,
    /// Marks joined by a line.
    Line,
    /// A line that goes right first, then up or down.
    Steps,
    /// A vertical line at each point.
    Upright,
    /// A line without marks.
    Front,
}

/// Points drawn in one look.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) look: Look,
    pub(crate) form: Form,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Draws points and lines between two axes; values that an axis cannot show are left out.
pub(crate) fn chart(title: &str, x: &Axis, y: &Axis, series: &[Series]) -> anyhow::Result<Svg> {
    let shown = |series: &Series| -> Vec<(f64, f64)> {
        let upright = series.form == Form::Upright;
        series.points.iter().copied().filter(|point| x.has(point.0) && (upright || y.has(point.1))).collect()
    };
    let all = || series.iter().flat_map(|series| shown(series).into_iter().map(|point| (series.form, point)));
    let across = Scale::around(x, all().map(|(_, point)| point.0));
    let up = Scale::around(y, all().filter(|(form, _)| *form != Form::Upright).map(|(_, point)| point.1));
    let (bottom, top) = (up.from(), up.to());
    draw(title, (WIDTH, HEIGHT), |area| {
        let mut plane = plane(area, (across, up), 124)?;
        mesh(&mut plane, &x.title, &y.title)?;
        for one in series {
            let points = shown(one);
            let path = if one.form == Form::Steps { steps(&points) } else { points.clone() };
            match one.form {
                Form::Line | Form::Steps if one.look.is_yardstick() => dashed(&mut plane, path, one.look)?,
                Form::Line | Form::Steps | Form::Front => {
                    plane.draw_series(LineSeries::new(path, one.look.line())).map(drop).map_err(failed)?;
                }
                Form::Upright => {
                    for &(value, _) in &points {
                        dashed(&mut plane, vec![(value, bottom), (value, top)], one.look)?;
                    }
                }
                Form::Points | Form::Pale => {}
            }
            let (size, opacity) = match one.form {
                Form::Pale => (MARK / 2, 0.5),
                Form::Steps => (MARK * 2 / 3, 1.0),
                _ => (MARK, 1.0),
            };
            if !matches!(one.form, Form::Upright | Form::Front) {
                points.iter().try_for_each(|&point| mark(&plane, point, one.look, (size, opacity)))?;
            }
        }
        Ok(())
    })
}

fn steps(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let corner = |pair: &[(f64, f64)]| [(pair[1].0, pair[0].1), pair[1]];
    points.iter().take(1).copied().chain(points.windows(2).flat_map(corner)).collect()
}

/// Draws a sample of a look for legends.
pub(crate) fn key(look: Look) -> anyhow::Result<Svg> {
    draw("", (40, 40), |area| {
        let mut plane = ChartBuilder::on(area).build_cartesian_2d(Scale::unit(), Scale::unit()).map_err(failed)?;
        if look.is_yardstick() {
            dashed(&mut plane, vec![(0.0, 0.5), (1.0, 0.5)], look)?;
        }
        mark(&plane, (0.5, 0.5), look, (13, 1.0))
    })
}

fn shape<'a, 'b, E>(plane: &Plane<'a, 'b>, element: E) -> anyhow::Result<()>
where
    E: plotters::element::Drawable<SVGBackend<'b>>,
    for<'e> &'e E: plotters::element::PointCollection<'e, (f64, f64)>,
{
    plane.plotting_area().draw(&element).map_err(failed)
}

/// Draws a dashed line; each yardstick has its own dashes.
fn dashed(plane: &mut Plane<'_, '_>, points: Vec<(f64, f64)>, look: Look) -> anyhow::Result<()> {
    let (dash, gap) = [(14, 6), (6, 5), (24, 8), (3, 6)][usize::from(look.shape % 4)];
    let line = DashedLineSeries::new(points, dash, gap, look.line());
    plane.draw_series(line).map(drop).map_err(failed)
}

fn mark(plane: &Plane<'_, '_>, point: (f64, f64), look: Look, (size, opacity): (i32, f64)) -> anyhow::Result<()> {
    let corners: Vec<(i32, i32)> = match look.shape % 4 {
        1 => vec![(-1, -1), (1, -1), (1, 1), (-1, 1)],
        2 => vec![(0, -1), (1, 1), (-1, 1)],
        _ => vec![(0, -1), (1, 0), (0, 1), (-1, 0)],
    };
    let wide = if look.shape % 4 == 3 { size * 4 / 3 } else { size };
    let mut corners: Vec<(i32, i32)> = corners.into_iter().map(|(x, y)| (x * wide, y * wide)).collect();
    let (round, hollow, colour) = (look.shape.is_multiple_of(4), look.shape >= 4, ink(look.ink).mix(opacity));
    let (stroke, fill) = (colour.stroke_width(4), if hollow { ink(BACKGROUND).mix(opacity) } else { colour }.filled());
    let at = || EmptyElement::at(point);
    if round {
        shape(plane, at() + Circle::new((0, 0), size, fill))?;
        return if hollow { shape(plane, at() + Circle::new((0, 0), size, stroke)) } else { Ok(()) };
    }
    shape(plane, at() + Polygon::new(corners.clone(), fill))?;
    if hollow {
        corners.push(corners[0]);
        shape(plane, at() + PathElement::new(corners, stroke))?;
    }
    Ok(())
}
