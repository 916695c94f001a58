//! The pages as a person sees them: in a headless Chromium, with the figures of a cluster of some hundred workloads.
//!
//! `UPDATE_SCREENSHOTS=1` writes the picture of the README; `SCREENSHOTS=DIR` writes every page, in light and dark.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a test that fails this way says where; and figures that are made up need no precision"
)]

#[path = "browser/driver.rs"]
mod driver;
#[path = "browser/world.rs"]
mod world;

use std::path::Path;

use plimsoll::server::Shutdown;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use self::driver::Browser;
use self::world::{HOSTILE, pages};

/// The pages of a server, and somebody who looks at them.
struct Visit {
    browser: Browser,
    home: String,
    _runtime: Runtime,
}

impl Visit {
    fn begin() -> Self {
        Self::to(|_| {})
    }

    /// The same of a server of which something is otherwise.
    fn to(change: fn(&mut plimsoll::api::Sources)) -> Self {
        let runtime = Runtime::new().unwrap();
        let address = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let mut sources = world::sources(320).await;
            change(&mut sources);
            tokio::spawn(plimsoll::api::serve(listener, sources, Shutdown::new()));
            address
        });
        Self { browser: Browser::start(), home: format!("http://{address}"), _runtime: runtime }
    }

    fn open(&self, path: &str) {
        self.browser.open(&format!("{}{path}", self.home));
    }

    fn text(&self, script: &str) -> String {
        let value = self.browser.run(script);
        value.as_str().map_or_else(|| value.to_string(), str::to_owned)
    }

    fn heading(&self) -> String {
        self.text("return document.querySelector('h1').textContent")
    }

    /// Nothing failed to load, nothing was forbidden by the policy.
    fn is_quiet(&self, page: &str) {
        assert_eq!(self.browser.console(), Vec::<String>::new(), "{page}");
    }
}

#[test]
fn every_page_is_reached_from_the_navigation_and_is_whole() {
    let visit = Visit::begin();
    visit.open("/");
    let links = visit
        .browser
        .run("return [...document.querySelectorAll('.top nav a')].map(a => a.getAttribute('href'))");
    for link in links.as_array().unwrap() {
        let path = link.as_str().unwrap();
        if path != "/" {
            visit.browser.follow(&format!(".top nav a[href='{path}']"));
        }
        assert_eq!(visit.heading(), pages()[path], "{path}");
        assert_eq!(
            visit.text("return document.querySelector('.top nav a[aria-current=page]').textContent"),
            visit.heading()
        );
        visit.is_quiet(path);
    }
    visit.open("/");
    let overview = visit.text("return document.querySelector('main').innerText");
    for part in [
        "Requested before",
        "Requested now",
        "Really used",
        "the load line",
        "pods of placement",
        "All 321 workloads",
    ] {
        assert!(overview.contains(part), "{part} is not in {overview}");
    }
    visit.browser.follow("a[href='/workloads']");
    visit.browser.follow("a[rel=next]");
    assert!(visit.text("return document.querySelector('.pager').innerText").contains("51 to 100 of 321"));
    visit.browser.follow("main tbody th a");
    assert!(
        visit.browser.address().contains("/Deployment/") || visit.browser.address().contains("/StatefulSet/")
    );
    visit.is_quiet("a workload");
}

#[test]
fn a_workload_is_told_of_in_words_and_pictures() {
    let visit = Visit::begin();
    visit.open("/workloads/shop/Deployment/web");
    let text = visit.text("return document.querySelector('main').innerText");
    for part in [
        "The 95th percentile is",
        "Requested now: 0.47 cores",
        "11,520 samples",
        "since somebody began to look",
        "The next one would be:",
        "Deployment shop/web",
        "shared-pool",
        "160 % of the request",
        "8 days of samples",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    assert_eq!(visit.text("return document.querySelectorAll('svg.plot').length"), "4");
    let unnamed = "return [...document.querySelectorAll('svg[role=img]')].filter(svg => !svg.querySelector('title')?.textContent).length";
    assert_eq!(visit.text(unnamed), "0", "every picture has a title");
    visit.is_quiet("web");
    visit.open("/workloads/payments/Deployment/api");
    let text = visit.text("return document.querySelector('main').innerText");
    assert!(text.contains("get on usagecheckpoints.plimsoll.dev"), "what is forbidden is named: {text}");
}

#[test]
fn hostile_names_are_text() {
    let visit = Visit::begin();
    for path in ["/workloads?q=onerror", "/decisions?q=onerror"] {
        visit.open(path);
        let text = visit.text("return document.querySelector('main').textContent");
        assert!(text.contains(r#"<img src=x onerror=alert(1)>\u{202e}"'&"#), "{text}");
        assert_eq!(visit.text("return document.querySelectorAll('img, script').length"), "0");
        visit.is_quiet(path);
    }
    visit.open("/workloads?q=onerror");
    visit.browser.follow("main tbody th a");
    assert_eq!(visit.heading(), HOSTILE.replace('\u{202e}', r"\u{202e}"));
    visit.is_quiet("the hostile workload");
}

#[test]
fn everything_can_be_read_in_light_and_dark() {
    let visit = Visit::begin();
    for scheme in ["light", "dark"] {
        visit.browser.scheme(scheme);
        for (path, _) in pages() {
            visit.open(path);
            let faint = visit.browser.run(CONTRAST);
            assert_eq!(faint.as_array().unwrap().len(), 0, "{scheme} {path}: {faint:#}");
            if let Ok(folder) = std::env::var("SCREENSHOTS") {
                let name = path.trim_matches('/').replace('/', "-");
                let name = if name.is_empty() { "overview" } else { &name };
                std::fs::write(
                    Path::new(&folder).join(format!("{name}-{scheme}.png")),
                    visit.browser.picture(true),
                )
                .unwrap();
            }
        }
    }
}

#[test]
fn keys_lead_through_the_page_in_order() {
    const HERE: &str = "const e = document.activeElement, s = getComputedStyle(e);
        return (e.id || e.textContent.trim().split('\\n')[0]) + '|' + (s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2)";
    let visit = Visit::begin();
    visit.open("/decisions");
    let order: Vec<String> = (0..15)
        .map(|_| {
            visit.browser.press("\u{e004}");
            visit.text(HERE)
        })
        .collect();
    let expected = [
        "Skip to content",
        "Plimsoll",
        "Overview",
        "Namespaces",
        "Workloads",
        "Quota",
        "Nodes",
        "Decisions",
        "Status",
    ];
    for (found, expected) in order.iter().zip(expected) {
        assert_eq!(*found, format!("{expected}|true"), "{order:?}");
    }
    assert!(order.iter().any(|found| found == "f-outcome|true"), "the form comes in its turn: {order:?}");
    visit.open("/");
    visit.browser.press("\u{e004}");
    visit.browser.press("\u{e007}");
    assert_eq!(visit.text("return document.activeElement.id"), "main", "the link skips the navigation");
}

#[test]
fn nothing_is_wider_than_a_small_screen() {
    let visit = Visit::begin();
    visit.browser.size(320, 640);
    for (path, _) in pages() {
        visit.open(path);
        let width = visit.browser.run("return document.documentElement.scrollWidth").as_u64().unwrap();
        assert!(width <= 320, "{path} is {width} wide");
        if let Ok(folder) = std::env::var("SCREENSHOTS") {
            let name = path.trim_matches('/').replace('/', "-");
            std::fs::write(Path::new(&folder).join(format!("small-{name}.png")), visit.browser.picture(true))
                .unwrap();
        }
    }
}

#[test]
fn the_picture_of_the_readme() {
    if std::env::var_os("UPDATE_SCREENSHOTS").is_none() {
        return;
    }
    let visit = Visit::to(|sources| sources.readiness = world::healthy());
    visit.browser.scheme("light");
    visit.browser.size(1280, 800);
    visit.open("/");
    std::fs::write("docs/img/dashboard.png", visit.browser.picture(false)).unwrap();
}

/// Texts whose contrast with what is behind them is too small: below 4.5, or 3 where they are large.
const CONTRAST: &str = r"
const parse = text => { const n = text.match(/[\d.]+/g).map(Number); return [n[0], n[1], n[2], n.length > 3 ? n[3] : 1]; };
const over = (top, under) => [0, 1, 2].map(i => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
const behind = element => {
  const layers = [];
  for (let at = element; at; at = at.parentElement) {
    const colour = parse(getComputedStyle(at).backgroundColor);
    if (colour[3] > 0) { layers.push(colour); if (colour[3] === 1) break; }
  }
  return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
};
const light = colour => {
  const [r, g, b] = colour.map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const faint = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const text = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
  if (!text || ['TITLE', 'title', 'desc', 'OPTION'].includes(element.tagName)) continue;
  const style = getComputedStyle(element);
  if (style.visibility === 'hidden' || !element.getClientRects().length) continue;
  const back = behind(element);
  const front = over(parse(element instanceof SVGElement ? style.fill : style.color), back);
  const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05), size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
  if (ratio < (large ? 3 : 4.5)) faint.push(`${ratio.toFixed(2)} ${style.color} ${text.slice(0, 40)}`);
}
return faint;
";
