//! How often how much was used.

use maud::Markup;
use plotters::prelude::{
    ChartBuilder, DrawingAreaErrorKind, IntoDrawingArea as _, PathElement, RGBColor, Rectangle, SVGBackend,
    ShapeStyle,
};
use plotters::style::{BLACK, Color as _, WHITE};

use super::framed;
use super::timeline::GRID;

const SIZE: (u32, u32) = (640, 220);
const FONT: &str = "sans-serif";

/// A histogram to draw.
#[derive(Clone, Debug, Default)]
pub(in crate::dashboard) struct Bars {
    /// From where to where a bucket reaches, and its share of the whole.
    pub(in crate::dashboard) buckets: Vec<(f64, f64, f64)>,
    /// The percentile that is the target.
    pub(in crate::dashboard) target: Option<f64>,
    /// What is requested now.
    pub(in crate::dashboard) request: Option<f64>,
    /// What a value is divided by to be shown.
    pub(in crate::dashboard) unit: f64,
    /// And what it is called then.
    pub(in crate::dashboard) name: &'static str,
}

/// What the style sheet replaces.
const BUCKET: RGBColor = RGBColor(0, 158, 115);
const TARGET: RGBColor = RGBColor(213, 94, 0);
const REQUEST: RGBColor = RGBColor(0, 114, 178);

/// Draws it. `None` where there is nothing to draw.
pub(in crate::dashboard) fn histogram(bars: &Bars, title: &str, description: &str) -> Option<Markup> {
    framed(&drawn(bars).ok().flatten()?, SIZE, title, description)
}

fn drawn(bars: &Bars) -> Result<Option<String>, DrawingAreaErrorKind<std::io::Error>> {
    let finite = |value: f64| Some(value).filter(|value| value.is_finite());
    let unit = if bars.unit > 0.0 { bars.unit } else { 1.0 };
    let buckets: Vec<(f64, f64, f64)> = bars
        .buckets
        .iter()
        .filter_map(|(from, to, share)| Some((finite(*from)? / unit, finite(*to)? / unit, finite(*share)?)))
        .collect();
    if buckets.is_empty() {
        return Ok(None);
    }
    let marks = [(bars.target, TARGET), (bars.request, REQUEST)];
    let marks = marks.map(|(value, colour)| (value.and_then(finite).map(|value| value / unit), colour));
    let right = buckets.iter().map(|(_, to, _)| *to).chain(marks.iter().filter_map(|(value, _)| *value));
    let right = right.fold(0.0, f64::max).max(1e-9) * 1.05;
    let top = buckets.iter().map(|(_, _, share)| share * 100.0).fold(0.0, f64::max).max(1e-9) * 1.15;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(8)
            .margin_right(24)
            .x_label_area_size(40)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..right, 0.0..top)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(WHITE.mix(0.0))
            .bold_line_style(GRID)
            .axis_style(GRID)
            .label_style((FONT, 13, &BLACK))
            .x_labels(7)
            .y_labels(4)
            .x_desc(bars.name)
            .y_desc("% of samples")
            .x_label_formatter(&|value| crate::dashboard::format::number(*value))
            .y_label_formatter(&|value| crate::dashboard::format::number(*value))
            .draw()?;
        let bucket = ShapeStyle::from(BUCKET).filled();
        chart.draw_series(
            buckets
                .iter()
                .map(|(from, to, share)| Rectangle::new([(*from, 0.0), (*to, share * 100.0)], bucket)),
        )?;
        for (value, colour) in marks {
            let style = ShapeStyle::from(colour).stroke_width(2);
            chart.draw_series(value.map(|at| PathElement::new(vec![(at, 0.0), (at, top)], style)))?;
        }
        area.present()?;
    }
    Ok(Some(svg))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_drawn_is() {
        let good = Bars {
            buckets: vec![(0.0, 0.01, 0.5), (0.01, 0.0205, 0.5)],
            unit: 1.0,
            name: "cores",
            ..Bars::default()
        };
        let marked = Bars { target: Some(0.02), request: Some(f64::NAN), ..good.clone() };
        let text = histogram(&marked, "CPU", "d").unwrap().into_string();
        assert!(text.contains("#D55E00") && !text.contains("#0072B2"), "{text}");
        assert!(histogram(&Bars::default(), "CPU", "d").is_none());
        let odd = Bars { buckets: vec![(f64::NAN, 1.0, 1.0), (0.0, 0.0, 0.0)], unit: 0.0, ..good };
        assert!(histogram(&odd, "CPU", "d").is_some());
    }
}
