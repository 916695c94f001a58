//! Pictures. Their colours are given by the style sheet, so that they fit a dark page too: bars by classes, plots by the
//! colours that plotters writes, which the style sheet replaces.

use std::sync::atomic::{AtomicU64, Ordering};

use maud::{Markup, html};

mod histogram;
mod timeline;

pub(super) use self::histogram::{Bars, histogram};
pub(super) use self::timeline::{Series, timeline};
use super::layout::made_here;

/// A bar of three lengths, each a share of the whole.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bar<'a> {
    /// What there is room for.
    pub(super) room: Option<f64>,
    /// The bar itself, and what it is called in the style sheet.
    pub(super) parts: &'a [(&'a str, f64)],
    /// Where a line is drawn across it.
    pub(super) line: Option<f64>,
}

/// Draws a bar. It says nothing that the text beside it does not, unless it has a `title`.
pub(super) fn bar(bar: &Bar<'_>, title: &str) -> Markup {
    let length =
        |share: f64| format!("{:.2}", if share.is_finite() { share.clamp(0.0, 1.0) * 100.0 } else { 0.0 });
    let id = fresh();
    html! {
        svg.bar viewBox="0 0 100 10" preserveAspectRatio="none" focusable="false"
            role=[(!title.is_empty()).then_some("img")]
            aria-labelledby=[(!title.is_empty()).then_some(&id)]
            aria-hidden=[title.is_empty().then_some("true")] {
            @if !title.is_empty() { title id=(id) { (title) } }
            @if let Some(room) = bar.room { rect.room x="0" y="1" height="8" width=(length(room)) {} }
            @for (class, share) in bar.parts {
                // What is really used lies thin upon what was requested, where both are there.
                @let thin = *class == "used" && bar.parts.len() > 1;
                rect class=(class) x="0" y=(if thin { 3.5 } else { 1.0 }) height=(if thin { 3.0 } else { 8.0 })
                    width=(length(*share)) {}
            }
            @if let Some(line) = bar.line {
                line.mark x1=(length(line)) x2=(length(line)) y1="0" y2="10" vector-effect="non-scaling-stroke" {}
            }
        }
    }
}

/// Names of titles must be different within a page.
fn fresh() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("p{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// What plotters drew, with a title and a description. `None` if it could not be drawn.
fn framed(svg: &str, size: (u32, u32), title: &str, description: &str) -> Option<Markup> {
    let inner = svg.split_once("<svg")?.1.split_once('>')?.1.rsplit_once("</svg>")?.0;
    let (of_title, of_description) = (fresh(), fresh());
    Some(html! {
        svg.plot viewBox={ "0 0 " (size.0) " " (size.1) } role="img" focusable="false"
            aria-labelledby=(of_title) aria-describedby=(of_description) {
            title id=(of_title) { (title) }
            desc id=(of_description) { (description) }
            (made_here(inner.to_owned()))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stay_within() {
        let drawn =
            bar(&Bar { room: Some(7.0), parts: &[("now", -1.0), ("used", f64::NAN)], line: Some(0.5) }, "");
        let text = drawn.into_string();
        assert!(text.contains(r#"class="room" x="0" y="1" height="8" width="100.00""#), "{text}");
        assert_eq!(text.matches(r#"width="0.00""#).count(), 2, "{text}");
        assert!(text.contains(r#"aria-hidden="true""#) && text.contains(r#"x1="50.00""#), "{text}");
        assert!(bar(&Bar::default(), "<used>").into_string().contains("&lt;used&gt;</title>"));
    }
}
