//! What stands in the Secret: the authority in force, the one that comes next, and those that were.
//!
//! | key | what |
//! | --- | --- |
//! | `format` | `plimsoll-ca/1`: that the rest is ours |
//! | `ca.crt`, `ca.key` | the authority that replicas sign with |
//! | `next.crt`, `next.key` | the one that is being published, and that nobody signs with yet |
//! | `previous.crt` | former ones that are still trusted; they sign no more, so that there are no keys |
//! | `switched` | when `ca.crt` took the place of `previous.crt`, or another source's were added to these |
//! | `rotated` | the value of the annotation by which a rotation was asked for last |
//!
//! Nothing is written over what is not understood: only an empty Secret, or one of ours that is whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::authority::{Authority, AuthorityError, Root};

/// The annotation by which a person asks for a new authority: any value that is not that of the last time.
pub const ROTATE: &str = "plimsoll.dev/rotate";

const FORMAT: &str = "plimsoll-ca/1";
const PAIRS: [(&str, &str); 2] = [("ca.crt", "ca.key"), ("next.crt", "next.key")];
/// All keys that are ours.
const KEYS: [&str; 8] =
    ["format", "ca.crt", "ca.key", "next.crt", "next.key", "previous.crt", "switched", "rotated"];

/// What is wrong with the Secret's content, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// It holds somebody else's data.
    #[error(
        "holds {keys}, which Plimsoll did not write and does not overwrite; name an empty Secret in tls.selfManaged.secret, \
         or take its data out"
    )]
    Foreign {
        /// The names of what it holds.
        keys: String,
    },
    /// A newer version wrote it.
    #[error("is of format {found:?}; this version understands {FORMAT:?}; run the version that wrote it")]
    Format {
        /// What it says.
        found: String,
    },
    /// Of a certificate and its key one is not there.
    #[error("is half-written: it has {has} and no {lacks}; {WAY_OUT}")]
    Half {
        /// What is there.
        has: &'static str,
        /// What is not.
        lacks: &'static str,
    },
    /// A value cannot be read.
    #[error("{key}: {problem}; {WAY_OUT}")]
    Value {
        /// Where.
        key: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A certificate and a key do not belong together, or cannot be used.
    #[error("{certificate} and {key}: {problem}; {WAY_OUT}")]
    Pair {
        /// The certificate.
        certificate: &'static str,
        /// The key.
        key: &'static str,
        /// What is wrong with them.
        problem: AuthorityError,
    },
}

const WAY_OUT: &str = "restore it from a backup, or empty it (kubectl patch secret NAME --type json --patch \
                       '[{\"op\":\"remove\",\"path\":\"/data\"}]') to have a new authority made";

/// The authorities of an installation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authorities {
    /// The one that replicas sign with. None while the first one is published.
    pub current: Option<Arc<Authority>>,
    /// The one that is being published.
    pub next: Option<Arc<Authority>>,
    /// Those that are still trusted, the newest first.
    pub previous: Vec<Root>,
    /// When the last of `previous` came to be so: when the current one was put in force, as a rule.
    pub switched: Option<Timestamp>,
    /// What the annotation said at the last rotation.
    pub rotated: String,
}

/// The content of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// There is nothing in it, as it is shipped.
    Empty,
    /// It is ours.
    Ours(Authorities),
}

impl Authorities {
    /// What every `caBundle` must hold: no more and no less. That in force comes first.
    #[must_use]
    pub fn bundle(&self) -> Vec<Root> {
        let signing = self.current.iter().chain(&self.next).map(|authority| authority.root().clone());
        let mut bundle: Vec<Root> = Vec::new();
        for root in signing.chain(self.previous.iter().cloned()) {
            if !bundle.contains(&root) {
                bundle.push(root);
            }
        }
        bundle
    }

    /// With a new authority that is to be published; `kept` are trusted too.
    #[must_use]
    pub fn made(&self, next: Arc<Authority>, kept: &[Root], rotate: Option<&str>) -> Self {
        let mut made = self.clone();
        made.next = Some(next);
        for root in kept {
            if !made.previous.contains(root) {
                made.previous.push(root.clone());
            }
        }
        if let Some(rotate) = rotate {
            rotate.clone_into(&mut made.rotated);
        }
        made
    }

    /// With the published authority in force, and the former one still trusted.
    #[must_use]
    pub fn switched(&self, now: Timestamp) -> Self {
        let Some(next) = &self.next else { return self.clone() };
        let mut previous: Vec<_> = self.current.iter().map(|former| former.root().clone()).collect();
        previous.extend(self.previous.iter().cloned());
        Self {
            current: Some(Arc::clone(next)),
            next: None,
            previous,
            switched: Some(now),
            rotated: self.rotated.clone(),
        }
    }

    /// With those of another source, which are trusted as long as a former one would be from now on.
    #[must_use]
    pub fn adopted(&self, others: &[Root], now: Timestamp) -> Self {
        let mut adopted = self.clone();
        adopted.previous.extend_from_slice(others);
        adopted.switched = Some(now);
        adopted
    }

    /// Without the former authorities.
    #[must_use]
    pub fn dropped(&self) -> Self {
        Self { previous: Vec::new(), ..self.clone() }
    }

    /// As the `data` of a Secret.
    #[must_use]
    pub fn data(&self) -> BTreeMap<&'static str, String> {
        let mut texts = BTreeMap::from([("format", FORMAT.to_owned())]);
        for ((certificate, key), authority) in PAIRS.into_iter().zip([&self.current, &self.next]) {
            if let Some(authority) = authority {
                texts.insert(certificate, authority.root().pem());
                texts.insert(key, authority.key_pem());
            }
        }
        if !self.previous.is_empty() {
            texts.insert("previous.crt", self.previous.iter().map(Root::pem).collect());
        }
        if let Some(switched) = self.switched {
            texts.insert("switched", switched.to_string());
        }
        if !self.rotated.is_empty() {
            texts.insert("rotated", self.rotated.clone());
        }
        texts.into_iter().map(|(key, text)| (key, BASE64_STANDARD.encode(text))).collect()
    }
}

/// Reads a Secret, as the API server gives it.
///
/// # Errors
/// It is not empty, and not ours and whole.
pub fn read(secret: &Value) -> Result<Content, ContentError> {
    let nothing = Map::new();
    let data = secret.get("data").and_then(Value::as_object).unwrap_or(&nothing);
    if data.is_empty() {
        return Ok(Content::Empty);
    }
    let Some(format) = data.get("format") else {
        let keys: Vec<_> = data.keys().map(String::as_str).collect();
        return Err(ContentError::Foreign { keys: shortened(&keys.join(", ")) });
    };
    let format = text("format", format)?;
    if format != FORMAT {
        return Err(ContentError::Format { found: shortened(&format) });
    }
    let value = |key: &'static str| data.get(key).map(|value| text(key, value)).transpose();
    let pair = |(certificate, key): (&'static str, &'static str)| {
        let (certificate_text, key_text) = match (value(certificate)?, value(key)?) {
            (None, None) => return Ok(None),
            (Some(_), None) => return Err(ContentError::Half { has: certificate, lacks: key }),
            (None, Some(_)) => return Err(ContentError::Half { has: key, lacks: certificate }),
            (Some(certificate_text), Some(key_text)) => (certificate_text, key_text),
        };
        match Authority::from_pem(&certificate_text, &key_text) {
            Ok(authority) => Ok(Some(Arc::new(authority))),
            Err(problem) => Err(ContentError::Pair { certificate, key, problem }),
        }
    };
    let [current, next] = PAIRS;
    let previous = value("previous.crt")?.unwrap_or_default();
    let previous = Root::all_of_pem(previous.as_bytes())
        .map_err(|error| ContentError::Value { key: "previous.crt", problem: error.to_string() })?;
    let switched = value("switched")?.map(|text| {
        text.parse().map_err(|_| ContentError::Value {
            key: "switched",
            problem: format!("{:?} is no time; expected RFC 3339", shortened(&text)),
        })
    });
    Ok(Content::Ours(Authorities {
        current: pair(current)?,
        next: pair(next)?,
        previous,
        switched: switched.transpose()?,
        rotated: value("rotated")?.unwrap_or_default(),
    }))
}

/// Puts authorities into a Secret that was read. What else it holds, stays.
#[must_use]
pub fn with(secret: &Value, authorities: &Authorities) -> Value {
    let mut secret = secret.clone();
    let Some(object) = secret.as_object_mut() else { return secret };
    let mut data = object.get("data").and_then(Value::as_object).cloned().unwrap_or_default();
    data.retain(|key, _| !KEYS.contains(&key.as_str()));
    data.extend(authorities.data().into_iter().map(|(key, text)| (key.to_owned(), Value::String(text))));
    object.insert("data".to_owned(), Value::Object(data));
    secret
}

/// The value of the annotation by which a rotation is asked for.
#[must_use]
pub fn rotate(secret: &Value) -> Option<&str> {
    secret.get("metadata")?.get("annotations")?.get(ROTATE)?.as_str().filter(|value| !value.is_empty())
}

fn text(key: &'static str, value: &Value) -> Result<String, ContentError> {
    let problem = |problem: &str| ContentError::Value { key, problem: problem.to_owned() };
    let encoded = value.as_str().ok_or_else(|| problem("is no text"))?;
    let bytes = BASE64_STANDARD.decode(encoded).map_err(|_| problem("is not base64"))?;
    if bytes.is_empty() {
        return Err(problem("is empty"));
    }
    String::from_utf8(bytes).map_err(|_| problem("is not UTF-8"))
}

fn shortened(text: &str) -> String {
    const LONGEST: usize = 100;
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests;
