//! A page of a list.

use serde::Deserialize;
use serde_json::value::RawValue;

/// A page, as the API server sends it. The items are read one at a time: a page of pods as one tree would be many times its
/// text.
#[derive(Deserialize)]
pub(crate) struct Page<'a> {
    #[serde(default)]
    metadata: PageMetadata,
    // Nothing at all is written as null.
    #[serde(default, borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMetadata {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    next: Option<String>,
}

impl<'a> Page<'a> {
    /// What is on it, unread.
    pub(crate) fn items(&self) -> impl Iterator<Item = &'a RawValue> {
        self.items.iter().flatten().copied()
    }

    /// What to ask the next page by, if there is one.
    pub(crate) fn next(&self) -> Option<&str> {
        self.metadata.next.as_deref().filter(|next| !next.is_empty())
    }

    /// The version at which all of the list was so.
    pub(crate) fn version(&self) -> Option<&str> {
        self.metadata.resource_version.as_deref().filter(|version| !version.is_empty())
    }
}
