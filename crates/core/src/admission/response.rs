//! The answer to a review.

use base64::Engine as _;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::admission::envelope::{Review, Version};
use crate::admission::patch::{Operation, to_json};
use crate::admission::self_check::SelfCheckError;
use crate::admission::skip::Skip;

/// What the API server accepts of annotation keys and values together, in bytes.
pub const ANNOTATIONS_LIMIT: usize = 262_144;

/// What an answer has beside its patch, as a rule; more makes it grow.
const SIZE: usize = 512;
const WARNINGS: usize = 5;
const WARNING_BYTES: usize = 256;

/// What became of a request, for metrics and the audit annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The pod was changed.
    Applied,
    /// A profile was applied and nothing had to change; or, at `/validate`, the object is good.
    Unchanged,
    /// The request was let through untouched.
    Skipped(Skip),
    /// The object was refused.
    Denied,
    /// Something went wrong on our side; the pod was let through untouched.
    Error,
}

impl Outcome {
    /// One word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Unchanged => "unchanged",
            Self::Skipped(skip) => skip.word(),
            Self::Denied => "denied",
            Self::Error => "error",
        }
    }
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// For the person who sent it.
    pub message: String,
    /// For the program that sent it.
    pub kind: DenialKind,
}

/// How a refusal is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenialKind {
    /// The object may not be stored as things are: 403.
    Forbidden,
    /// It could not be judged now: 429.
    TooManyRequests,
}

impl DenialKind {
    const fn reason(self) -> &'static str {
        match self {
            Self::Forbidden => "Forbidden",
            Self::TooManyRequests => "TooManyRequests",
        }
    }

    const fn code(self) -> u16 {
        match self {
            Self::Forbidden => 403,
            Self::TooManyRequests => 429,
        }
    }
}

/// What to answer, before it is put in an envelope.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// What became of the request.
    pub outcome: Outcome,
    /// Why it is refused; allowed if there is none.
    pub denial: Option<Denial>,
    /// The patch; none is sent if it is empty.
    pub patch: Vec<Operation>,
    /// Warnings for the person who sent the request.
    pub warnings: Vec<String>,
    /// The name of the profile, for the audit log.
    pub profile: Option<String>,
    /// What changed, for the audit log.
    pub changed: Option<String>,
}

impl Answer {
    /// Takes a patch in, if it was found right; else says what becomes of the object, and why. What was found wrong.
    pub(crate) fn send(
        &mut self,
        patch: Vec<Operation>,
        checked: Result<(), SelfCheckError>,
        instead: &str,
    ) -> Option<SelfCheckError> {
        let error = checked.err();
        match &error {
            None => self.patch = patch,
            Some(error) => {
                self.outcome = Outcome::Error;
                self.changed = None;
                self.warnings.insert(0, format!("plimsoll: {instead}: {error}"));
            }
        }
        error
    }

    /// An answer that lets the request through untouched.
    pub const fn allow(outcome: Outcome) -> Self {
        Self { outcome, denial: None, patch: Vec::new(), warnings: Vec::new(), profile: None, changed: None }
    }

    /// An answer that refuses the request.
    pub fn deny(message: String) -> Self {
        Self::refuse(Denial { message, kind: DenialKind::Forbidden })
    }

    /// An answer that refuses the request for now. There is no hint when to retry: with one, workers of the
    /// controller-manager wait, and everybody's pods with them.
    pub fn deny_for_now(message: String) -> Self {
        Self::refuse(Denial { message, kind: DenialKind::TooManyRequests })
    }

    fn refuse(denial: Denial) -> Self {
        Self { denial: Some(denial), ..Self::allow(Outcome::Denied) }
    }
}

/// The answer as the bytes of an `AdmissionReview`, in the version asked and with the same uid.
pub fn write(review: &Review<'_>, answer: &Answer) -> Vec<u8> {
    write_to(review.version, review.uid, answer)
}

/// The same, where of the review only what is echoed is kept.
pub fn write_to(version: Version, uid: &RawValue, answer: &Answer) -> Vec<u8> {
    let patch =
        (!answer.patch.is_empty() && answer.denial.is_none()).then(|| patch_text(&answer.patch)).flatten();
    let warnings: Vec<String> = answer.warnings.iter().map(|text| presentable(text)).take(WARNINGS).collect();
    let body = Body {
        api_version: version.api_version(),
        kind: "AdmissionReview",
        response: Response {
            uid,
            allowed: answer.denial.is_none(),
            status: answer.denial.as_ref().map(|denial| Status {
                result: "Failure",
                message: &denial.message,
                reason: denial.kind.reason(),
                code: denial.kind.code(),
            }),
            patch_type: patch.as_ref().map(|_| "JSONPatch"),
            patch,
            warnings,
            audit_annotations: AuditAnnotations {
                changed: answer.changed.as_deref(),
                decision: answer.outcome.word(),
                profile: answer.profile.as_deref(),
            },
        },
    };
    // Serializing strings and maps to memory cannot fail; an empty body would be an error for the caller.
    let mut text =
        Vec::with_capacity(SIZE + body.response.patch.as_ref().map_or(0, |patch| patch.get().len()));
    match serde_json::to_writer(&mut text, &body) {
        Ok(()) => text,
        Err(_) => Vec::new(),
    }
}

/// The patch as a JSON string. Base64 has nothing that JSON escapes, so it need not be looked through again.
fn patch_text(operations: &[Operation]) -> Option<Box<RawValue>> {
    let json = to_json(operations);
    let mut text = String::with_capacity(json.len().div_ceil(3) * 4 + 2);
    text.push('"');
    base64::engine::general_purpose::STANDARD.encode_string(json, &mut text);
    text.push('"');
    RawValue::from_string(text).ok()
}

/// Without control characters (the API server drops a warning with a newline) and at most 256 bytes, cut
/// at a character.
fn presentable(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(WARNING_BYTES));
    for c in text.chars() {
        let c = if c.is_control() { ' ' } else { c };
        if out.len() + c.len_utf8() > WARNING_BYTES {
            break;
        }
        out.push(c);
    }
    out
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a RawValue,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    audit_annotations: AuditAnnotations<'a>,
}

#[derive(Serialize)]
struct Status<'a> {
    #[serde(rename = "status")]
    result: &'static str,
    message: &'a str,
    reason: &'static str,
    code: u16,
}

#[derive(Serialize)]
struct AuditAnnotations<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<&'a str>,
    decision: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::presentable;

    #[test]
    fn warnings_are_presentable() {
        for (rule, text, expected) in [
            ("control characters become blanks", "a\nb\tc\u{7f}d".to_owned(), "a b c d".to_owned()),
            ("cut at 256 bytes", "x".repeat(300), "x".repeat(256)),
            ("cut at a character", format!("{}é", "x".repeat(255)), "x".repeat(255)),
            ("short text is kept", "héllo".to_owned(), "héllo".to_owned()),
        ] {
            assert_eq!(presentable(&text), expected, "{rule}");
        }
    }
}
