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
    // A day has two dates.
    let form = if last.saturating_sub(first) >= HALF_DAY { "%b %-d %H:%M" } else { "%H:%M" };
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(8)
            .margin_right(24)
            .x_label_area_size(44)
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
                Timestamp::from_second(*second).unwrap_or_default().strftime(form).to_string()
            })
            .y_label_formatter(&|value| crate::dashboard::format::number(*value))
            .x_desc("Time (UTC)")
            .y_desc(unit)
            .draw()?;
        for Series { colour, points } in series {
            let style = ShapeStyle::from(*colour).stroke_width(2);
            let at = |(at, value): &(Timestamp, f64)| (at.as_second(), *value);
            for part in unbroken(points) {
                chart.draw_series(LineSeries::new(part.iter().map(at), style))?;
            }
            // The newest point is where one looks first, and the only one after the first look.
            chart.draw_series(points.last().map(|point| Circle::new(at(point), 4, style.filled())))?;
        }
        area.present()?;
    }
    Ok(Some(svg))
}

/// The parts of a line between which nothing was measured: where points are further apart than they mostly are, or are
/// no numbers.
fn unbroken(points: &[(Timestamp, f64)]) -> impl Iterator<Item = &[(Timestamp, f64)]> {
    let apart = |a: &(Timestamp, f64), b: &(Timestamp, f64)| b.0.as_second().saturating_sub(a.0.as_second());
    let mut gaps: Vec<i64> =
        points.iter().zip(points.iter().skip(1)).map(|(before, after)| apart(before, after)).collect();
    gaps.sort_unstable();
    let usual = gaps.get(gaps.len() / 2).copied().unwrap_or_default();
    // A look that is late is no gap.
    let most = usual.saturating_mul(3);
    points
        .chunk_by(move |before, after| {
            apart(before, after) <= most && before.1.is_finite() && after.1.is_finite()
        })
        .filter(|part| part.iter().all(|(_, value)| value.is_finite()))
}

/// Seconds from which on times are shown with their dates.
const HALF_DAY: i64 = 12 * 3600;

/// Lines behind the picture.
pub(super) const GRID: RGBColor = RGBColor(221, 221, 221);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_where_nothing_was_measured() {
        for (rule, times, expected) in [
            ("none", vec![], vec![]),
            ("one", vec![0], vec![1]),
            ("even", vec![0, 30, 60], vec![3]),
            ("one late look", vec![0, 30, 60, 150, 180], vec![5]),
            ("a gap", vec![0, 30, 60, 3600, 3630], vec![3, 2]),
            ("no number", vec![0, 30, -1, 90, 120], vec![2, 2]),
        ] {
            let points: Vec<(Timestamp, f64)> = times
                .iter()
                .enumerate()
                .map(|(index, second)| {
                    let is_number = *second >= 0;
                    let second = if is_number { *second } else { i64::try_from(index).unwrap() * 30 };
                    (Timestamp::from_second(second).unwrap(), if is_number { 1.0 } else { f64::NAN })
                })
                .collect();
            let parts: Vec<usize> = unbroken(&points).map(<[_]>::len).collect();
            assert_eq!(parts, expected, "{rule}");
        }
    }

    #[test]
    fn times_are_told_with_their_zone_and_a_day_with_dates() {
        let at = |second| Timestamp::from_second(second).unwrap();
        for (rule, last, has_date) in [("an hour", 3600, false), ("a day", 86_400, true)] {
            let points = vec![(at(0), 1.0), (at(last), 1.0)];
            let text =
                timeline(&[Series { colour: BLACK, points }], "cores", "t", "d").unwrap().into_string();
            assert!(text.contains("Time (UTC)"), "{rule}: {text}");
            assert_eq!(text.contains("Jan 1 "), has_date, "{rule}: {text}");
        }
    }

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
