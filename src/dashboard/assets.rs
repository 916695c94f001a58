//! The two files that pages need: a style sheet and the mark. Their addresses hold their hashes, so that browsers keep
//! them for good and never mix versions.

use std::sync::LazyLock;

use sha2::{Digest as _, Sha256};

/// A file.
pub(super) struct Asset {
    /// Where it is found.
    pub(super) path: String,
    /// What it is.
    pub(super) media_type: &'static str,
    /// What is in it.
    pub(super) content: &'static str,
}

/// How pages look.
pub(super) static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("css", "text/css; charset=utf-8", include_str!("style.css")));
/// The mark of a load line, for the tab.
pub(super) static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("svg", "image/svg+xml", include_str!("icon.svg")));

impl Asset {
    fn new(ending: &str, media_type: &'static str, content: &'static str) -> Self {
        let number =
            Sha256::digest(content).iter().take(6).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        Self { path: format!("/assets/{number:012x}.{ending}"), media_type, content }
    }
}

/// The file of a path.
pub(super) fn find(path: &str) -> Option<&'static Asset> {
    [&*STYLE, &*ICON].into_iter().find(|asset| asset.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_their_hash_alone() {
        assert!(STYLE.path.starts_with("/assets/") && STYLE.path.len() == "/assets/.css".len() + 12);
        assert!(find(&STYLE.path).is_some() && find(&ICON.path).is_some());
        assert!(find("/assets/style.css").is_none());
        assert!(
            !STYLE.content.contains("url(") && !STYLE.content.contains("@import"),
            "nothing from elsewhere"
        );
    }
}
