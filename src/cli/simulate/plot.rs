//! The comparison as a picture.

use plimsoll_core::resource::Resource;
use plimsoll_core::simulate::{Each, Figures, Period};
use plimsoll_core::usage::timestamp_of;
use plotters::coord::Shift;
use plotters::prelude::{
    ChartBuilder, Circle, DrawingArea, DrawingAreaErrorKind, EmptyElement, IntoDrawingArea, LineSeries,
    RGBColor, SVGBackend, ShapeStyle, Text, WHITE,
};
use plotters::style::{BLACK, Color, IntoFont};

use super::Compared;

/// By Okabe and Ito: colours that colour-blind people can tell apart.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 0, 0),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(120, 120, 120),
];

/// What was used, whoever requested.
const USED: RGBColor = RGBColor(200, 30, 30);

const WIDTH: u32 = 1000;
const HEIGHT: u32 = 420;
const FONT: &str = "sans-serif";

type Failed = DrawingAreaErrorKind<std::io::Error>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// An SVG picture: for each resource that is requested, what was requested against what was above it, and below it, over
/// time, what was requested and used. `redeploy` is the time between deployments in nanoseconds.
pub(super) fn draw(compared: &[Compared], redeploy: i64) -> Result<String, Failed> {
    let resources: Vec<Resource> = [Resource::Cpu, Resource::Memory]
        .into_iter()
        .filter(|resource| compared.iter().any(|compared| figures(compared, *resource).is_some()))
        .collect();
    let columns = u32::try_from(resources.len()).unwrap_or(1).max(1);
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH * columns, 2 * HEIGHT)).into_drawing_area();
        root.fill(&WHITE)?;
        let areas = root.split_evenly((2, resources.len().max(1)));
        let (upper, lower) = areas.split_at(resources.len().min(areas.len()));
        for ((resource, upper), lower) in resources.into_iter().zip(upper).zip(lower) {
            against(upper, compared, resource)?;
            over_time(lower, compared, resource, redeploy)?;
        }
        root.present()?;
    }
    Ok(svg)
}

fn figures(compared: &Compared, resource: Resource) -> Option<&Figures> {
    compared.outcome.figures.get(resource)?.as_ref()
}

fn colour(index: usize) -> RGBColor {
    COLOURS.get(index % COLOURS.len()).copied().unwrap_or(BLACK)
}

/// What is requested to the right, what is above upwards: the lower left corner is where one wants to be.
fn against(area: &Area<'_>, compared: &[Compared], resource: Resource) -> Result<(), Failed> {
    let share = |part: u64, of: u64| {
        #[expect(clippy::cast_precision_loss, reason = "counts of deployments are small")]
        let share = part as f64 / of.max(1) as f64;
        share
    };
    let points: Vec<(usize, f64, f64)> = compared
        .iter()
        .enumerate()
        .filter_map(|(index, compared)| {
            let figures = figures(compared, resource)?;
            let above = match resource {
                Resource::Cpu => figures.time_above,
                _ => share(figures.deployments_above, figures.deployments),
            };
            Some((index, figures.of_original * 100.0, above * 100.0))
        })
        .collect();
    let (title, above) = match resource {
        Resource::Cpu => ("CPU: requested, and time above the request", "% of the time"),
        _ => ("Memory: requested, and deployments above the request", "% of the deployments"),
    };
    // Room for the name of the last.
    let right = 1.25 * points.iter().map(|point| point.1).fold(10.0, f64::max);
    let top = 1.3 * points.iter().map(|point| point.2).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..right, -0.02 * top..top)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc("requested, % of the original")
        .y_desc(above)
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.1}"))
        .draw()?;
    let labels = apart(&points, right, top);
    chart.draw_series(points.iter().zip(labels).filter_map(|((index, x, y), offset)| {
        let name = compared.get(*index)?.name.clone();
        let style = (FONT, 13).into_font().color(&colour(*index));
        Some(
            EmptyElement::at((*x, *y))
                + Circle::new((0, 0), 4, ShapeStyle::from(colour(*index)).filled())
                + Text::new(name, (8, offset), style),
        )
    }))?;
    Ok(())
}

/// How far labels are moved down (in pixels) so that none lies upon another.
fn apart(points: &[(usize, f64, f64)], right: f64, top: f64) -> Vec<i32> {
    const LINE: f64 = 14.0;
    const REACH: f64 = 170.0;
    let (width, height) = (f64::from(WIDTH) - 90.0, f64::from(HEIGHT) - 90.0);
    let mut taken: Vec<(f64, f64)> = Vec::new();
    points
        .iter()
        .map(|(_, x, y)| {
            let (x, at) = (x / right * width, (1.0 - y / top) * height - LINE / 2.0);
            // Upwards, since points gather at the bottom.
            let free = |at: f64| taken.iter().all(|(u, v)| (u - x).abs() > REACH || (v - at).abs() >= LINE);
            let moved = (0..100_i32).find(|lines| free(at - f64::from(*lines) * LINE)).unwrap_or(0);
            taken.push((x, at - f64::from(moved) * LINE));
            -7 - moved * 14
        })
        .collect()
}

/// What each policy requested, and what was used, one deployment after the other. Where there are no containers there is
/// no line.
fn over_time(
    area: &Area<'_>,
    compared: &[Compared],
    resource: Resource,
    redeploy: i64,
) -> Result<(), Failed> {
    let unit = if resource == Resource::Cpu { 1.0 } else { 1_073_741_824.0 };
    let value = |of: &Each<f64>| of.get(resource).copied().unwrap_or(0.0) / unit;
    let all = || compared.iter().flat_map(|compared| &compared.outcome.periods);
    let top =
        1.1 * all().map(|period| value(&period.requested).max(value(&period.used))).fold(0.001, f64::max);
    let first = all().map(|period| period.start).min().unwrap_or(0);
    let last = all().map(|period| period.start).max().unwrap_or(0).max(first.saturating_add(1));
    // Room for the legend.
    let times = first..last.saturating_add(last.saturating_sub(first) / 3);
    let title = match resource {
        Resource::Cpu => "CPU at each deployment",
        _ => "Memory at each deployment",
    };
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(times, 0.0..top)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .y_desc(if resource == Resource::Cpu { "cores" } else { "GiB" })
        .x_labels(8)
        .x_label_formatter(&|nanos| timestamp_of(*nanos).strftime("%Y-%m-%d").to_string())
        .y_label_formatter(&|y| if top < 10.0 { format!("{y:.2}") } else { format!("{y:.0}") })
        .draw()?;
    let used = compared.first().map(|first| ("used", &first.outcome.periods, USED, 3));
    let requested = compared
        .iter()
        .enumerate()
        .map(|(index, Compared { name, outcome })| (name.as_str(), &outcome.periods, colour(index), 2));
    for (name, periods, colour, width) in requested.chain(used) {
        let style = ShapeStyle::from(colour).stroke_width(width);
        let of =
            |period: &Period| if name == "used" { value(&period.used) } else { value(&period.requested) };
        let unbroken = periods.chunk_by(|one, next| next.start.saturating_sub(one.start) <= redeploy);
        for (at, periods) in unbroken.enumerate() {
            let points = periods.iter().map(|period| (period.start, of(period)));
            let drawn = chart.draw_series(LineSeries::new(points, style).point_size(1))?;
            if at == 0 {
                drawn.label(name).legend(move |(x, y)| Circle::new((x + 6, y), 4, style.filled()));
            }
        }
    }
    chart
        .configure_series_labels()
        .label_font((FONT, 13))
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(())
}
