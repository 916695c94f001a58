//! The tree as a picture: a bar for each node and resource.

use std::sync::Arc;

use plimsoll_core::quota::{Tree, Used, shown};
use plotters::prelude::{
    DrawingAreaErrorKind, IntoDrawingArea, PathElement, RGBColor, Rectangle, SVGBackend, ShapeStyle, Text,
    WHITE,
};
use plotters::style::{BLACK, IntoFont};

/// By Okabe and Ito: colours that colour-blind people can tell apart.
const OWNED: RGBColor = RGBColor(0, 114, 178);
const BORROWED: RGBColor = RGBColor(230, 159, 0);
const ROOM: RGBColor = RGBColor(225, 225, 225);

const FONT: &str = "sans-serif";
const LINE: i32 = 22;
const TOP: i32 = 54;
const NAMES: i32 = 260;
const COLUMN: i32 = 300;
const BAR: i32 = 170;
/// More lines are not a picture that anybody reads.
const MOST_LINES: usize = 2_000;

type Failed = DrawingAreaErrorKind<std::io::Error>;

/// An SVG picture with a line for each node and a column for each resource.
pub(super) fn draw(tree: &Tree, used: &Used, resources: &[Arc<str>]) -> Result<String, Failed> {
    let ids = tree.depth_first();
    let lines = ids.len().min(MOST_LINES);
    let height = u32::try_from(lines).unwrap_or(0) * LINE.unsigned_abs() + 2 * TOP.unsigned_abs();
    let columns = u32::try_from(resources.len()).unwrap_or(1).max(1);
    let mut svg = String::new();
    {
        let size = (NAMES.unsigned_abs() + columns * COLUMN.unsigned_abs(), height);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE)?;
        let write = |text: String, x: i32, y: i32, size: i32| {
            area.draw(&Text::new(text, (x, y), (FONT, size).into_font().color(&BLACK)))
        };
        write("blue: within min, orange: borrowed, grey: up to max, line: min".to_owned(), 10, 8, 12)?;
        for (column, resource) in (0_i32..).zip(resources) {
            let left = NAMES + column * COLUMN;
            write(resource.to_string(), left, TOP - 20, 14)?;
            let whole = whole(tree, used, resource);
            for (line, (id, node)) in
                (0_i32..).zip(ids.iter().take(lines).filter_map(|id| Some((*id, tree.node(*id)?))))
            {
                let y = TOP + line * LINE;
                let used = used.at(id).of(resource);
                let (min, max) = (node.min.of(resource), node.max.get(resource));
                let at = |nanos: i128| left + part(nanos, whole);
                let bar = |from: i32, to: i32, colour: RGBColor| {
                    let style = ShapeStyle::from(colour).filled();
                    area.draw(&Rectangle::new([(from, y + 3), (to.max(from), y + LINE - 5)], style))
                };
                bar(left, at(max.unwrap_or(whole)), ROOM)?;
                bar(left, at(used.min(min)), OWNED)?;
                if used > min {
                    bar(at(min), at(used), BORROWED)?;
                }
                let line = vec![(at(min), y + 1), (at(min), y + LINE - 3)];
                area.draw(&PathElement::new(line, ShapeStyle::from(BLACK).stroke_width(1)))?;
                let bound = max.map_or_else(|| "no max".to_owned(), |max| shown(resource, max));
                write(format!("{} of {bound}", shown(resource, used)), left + BAR + 8, y + 3, 12)?;
            }
        }
        for (line, node) in (0_i32..).zip(ids.iter().take(lines).filter_map(|id| tree.node(*id))) {
            let indent = i32::try_from(node.depth.min(20)).unwrap_or(0) * 12;
            write(
                node.name.chars().filter(|c| !c.is_control()).take(30).collect(),
                10 + indent,
                TOP + line * LINE + 3,
                13,
            )?;
        }
        if ids.len() > lines {
            let text = format!("and {} more nodes", ids.len() - lines);
            write(text, 10, i32::try_from(height).unwrap_or(i32::MAX) - TOP + 10, 13)?;
        }
        area.present()?;
    }
    Ok(svg)
}

/// What a whole bar stands for: the root's maximum or what the root uses, whichever is more; without them the greatest
/// bound.
fn whole(tree: &Tree, used: &Used, resource: &str) -> i128 {
    let root = tree.nodes().first().and_then(|root| root.max.get(resource));
    let bounds = || tree.nodes().iter().map(|node| node.max.of(resource).max(node.min.of(resource)));
    let bound = root.or_else(|| bounds().max()).unwrap_or(0);
    bound.max(tree.id(0).map_or(0, |root| used.at(root).of(resource))).max(1)
}

/// How many pixels of a bar.
fn part(nanos: i128, whole: i128) -> i32 {
    #[expect(clippy::cast_precision_loss, reason = "pixels need no precision")]
    let share = nanos.clamp(0, whole) as f64 / whole as f64;
    #[expect(clippy::cast_possible_truncation, reason = "at most the length of a bar")]
    let pixels = (share * f64::from(BAR)).round() as i32;
    pixels
}
