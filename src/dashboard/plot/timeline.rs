//! What was requested and used, over time.

use jiff::Timestamp;
use maud::Markup;
use plotters::prelude::{
    ChartBuilder, Circle, DrawingAreaErrorKind, IntoDrawingArea as _, LineSeries, RGBColor, SVGBackend,
    ShapeStyle,
};
use plotters::style::{BLACK, Color as _, WHITE};

use super::framed;

const SIZE: (u32, u32) = (640, 240);
const FONT: &str = "sans-serif";

/// A line.
#[derive(Clone, Debug)]
pub(in crate::dashboard) struct Series {
    /// What the style sheet replaces.
    pub(in crate::dashboard) colour: RGBColor,
    /// Points, the oldest first.
    pub(in crate::dashboard) points: Vec<(Timestamp, f64)>,
}

/// Draws lines from zero upwards. `None` where there is nothing to draw.
pub(in crate::dashboard) fn timeline(
    series: &[Series],
    unit: &str,
    title: &str,
    description: &str,
) -> Option<Markup> {
    framed(&drawn(series, unit).ok().flatten()?, SIZE, title, description)
}

fn drawn(series: &[Series], unit: &str) -> Result<Option<String>, DrawingAreaErrorKind<std::io::Error>> {
    let points = || series.iter().flat_map(|series| &series.points);
    let times = || points().map(|(at, _)| at.as_second());
    let Some((first, last)) = times().min().zip(times().max()) else { return Ok(None) };
    let top = points().map(|(_, value)| *value).filter(|value| value.is_finite()).fold(0.0, f64::max);
    let top = if top > 0.0 { top * 1.15 } else { 1.0 };
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(8)
            .margin_right(24)
            .x_label_area_size(28)
            .y_label_area_size(64)
            .build_cartesian_2d(first..last.max(first + 60), 0.0..top)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(WHITE.mix(0.0))
            .bold_line_style(GRID)
            .axis_style(GRID)
            .label_style((FONT, 13, &BLACK))
            .x_labels(5)
            .y_labels(5)
            .x_label_formatter(&|second| {
                Timestamp::from_second(*second).unwrap_or_default().strftime("%H:%M").to_string()
            })
            .y_label_formatter(&|value| crate::dashboard::format::number(*value))
            .y_desc(unit)
            .draw()?;
        for Series { colour, points } in series {
            let style = ShapeStyle::from(*colour).stroke_width(2);
            let at = |(at, value): &(Timestamp, f64)| (at.as_second(), *value);
            chart.draw_series(LineSeries::new(points.iter().map(at), style))?;
            // The newest point is where one looks first, and the only one after the first look.
            chart.draw_series(points.last().map(|point| Circle::new(at(point), 4, style.filled())))?;
        }
        area.present()?;
    }
    Ok(Some(svg))
}

/// Lines behind the picture.
pub(super) const GRID: RGBColor = RGBColor(221, 221, 221);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_figures_are_drawn_or_not() {
        let at = |second| Timestamp::from_second(second).unwrap();
        for (rule, points, is_drawn) in [
            ("none", vec![], false),
            ("one", vec![(at(0), 1.0)], true),
            ("zeros", vec![(at(0), 0.0), (at(30), 0.0)], true),
            ("no number", vec![(at(0), f64::NAN), (at(30), f64::INFINITY)], true),
            ("many", (0..120).map(|i| (at(i * 30), f64::from(u32::try_from(i).unwrap()))).collect(), true),
        ] {
            let drawn = timeline(&[Series { colour: BLACK, points }], "cores", "a < b", "d");
            assert_eq!(drawn.is_some(), is_drawn, "{rule}");
            let text = drawn.map(Markup::into_string).unwrap_or_default();
            assert!(!text.contains("style=") && !text.contains("a < b"), "{rule}: {text}");
        }
    }
}
