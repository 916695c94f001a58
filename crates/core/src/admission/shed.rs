//! The answer to a request that nobody has time to look at.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::admission::envelope::Version;
use crate::admission::response::{Answer, write_to};

/// The refusal, for now, of a request of which only the beginning may be there. Nothing is looked at but what has to be
/// echoed, which the API server writes first. `None` if that is not there.
pub fn turn_away(beginning: &[u8], message: &str) -> Option<Vec<u8>> {
    let mut echo = Echo::default();
    // An error is the rule: reading stops where nothing more is wanted, or the beginning ends.
    let _ = EnvelopeSeed(&mut echo).deserialize(&mut serde_json::Deserializer::from_slice(beginning));
    let uid = echo.uid.filter(|uid| uid.get().starts_with('"'))?;
    let version = echo.version.unwrap_or(Version::V1);
    Some(write_to(version, uid, &Answer::deny_for_now(message.to_owned())))
}

/// What an answer repeats.
#[derive(Default)]
struct Echo<'a> {
    version: Option<Version>,
    uid: Option<&'a RawValue>,
}

impl Echo<'_> {
    /// Ends the reading when everything is there.
    fn enough<E: Error>(&self) -> Result<(), E> {
        if self.version.is_some() && self.uid.is_some() { Err(E::custom("enough")) } else { Ok(()) }
    }
}

struct EnvelopeSeed<'e, 'a>(&'e mut Echo<'a>);

impl<'de> DeserializeSeed<'de> for EnvelopeSeed<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EnvelopeSeed<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an AdmissionReview")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        while let Some(key) = access.next_key::<Cow<'de, str>>()? {
            match key.as_ref() {
                "apiVersion" => {
                    let version = access.next_value::<Cow<'de, str>>()?;
                    let v1beta1 = version == Version::V1Beta1.api_version();
                    self.0.version = Some(if v1beta1 { Version::V1Beta1 } else { Version::V1 });
                }
                "request" => access.next_value_seed(RequestSeed(self.0))?,
                _ => drop(access.next_value::<IgnoredAny>()?),
            }
            self.0.enough()?;
        }
        Ok(())
    }
}

struct RequestSeed<'e, 'a>(&'e mut Echo<'a>);

impl<'de> DeserializeSeed<'de> for RequestSeed<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RequestSeed<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an admission request")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        while let Some(key) = access.next_key::<Cow<'de, str>>()? {
            if key == "uid" {
                self.0.uid = Some(access.next_value()?);
                self.0.enough()?;
            } else {
                access.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_beginning_is_enough() {
        let whole = r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"a\u00e9b","kind":{}}}"#;
        let end = whole.find(r#","kind":{}"#).unwrap();
        for (rule, body, expected) in [
            ("whole", whole, Some("admission.k8s.io/v1")),
            ("cut behind the uid", &whole[..end], Some("admission.k8s.io/v1")),
            ("cut in the uid", &whole[..end - 3], None),
            (
                "the version comes last",
                r#"{"request":{"object":{"uid":"x"},"uid":"a\u00e9b"},"apiVersion":"admission.k8s.io/v1beta1"}"#,
                Some("admission.k8s.io/v1beta1"),
            ),
            (
                "the version is cut off",
                r#"{"request":{"uid":"a\u00e9b","object":{"metadata":"#,
                Some("admission.k8s.io/v1"),
            ),
            ("no text for a uid", r#"{"request":{"uid":5}}"#, None),
            ("no request", r#"{"request":null}"#, None),
            ("a list", "[]", None),
            ("nothing", "", None),
            ("no JSON", "\u{7f}{", None),
        ] {
            let answer = turn_away(body.as_bytes(), "try again");
            let answer: Option<Value> = answer.map(|answer| serde_json::from_slice(&answer).unwrap());
            assert_eq!(
                answer.as_ref().map(|answer| answer["apiVersion"].as_str().unwrap()),
                expected,
                "{rule}"
            );
            let Some(answer) = answer else { continue };
            assert_eq!(answer["response"]["uid"], "aéb", "{rule}");
            assert_eq!(answer["response"]["allowed"], false, "{rule}");
            let status = json!({"status": "Failure", "message": "try again", "reason": "TooManyRequests", "code": 429});
            assert_eq!(answer["response"]["status"], status, "{rule}");
        }
    }
}
