//! What is sent: the review of a pod as the API server writes it, and the objects it is judged by.

/// A pod of a Deployment with two containers and a sidecar, about to be created.
const REVIEW: &str = include_str!("review.json");

/// The review as it goes over the wire: in the API server's order of members, without blanks.
pub(crate) fn review() -> Vec<u8> {
    let mut in_string = false;
    let mut escaped = false;
    let keep = |&byte: &u8| {
        let blank = !in_string && byte.is_ascii_whitespace();
        if byte == b'"' && !escaped {
            in_string = !in_string;
        }
        escaped = byte == b'\\' && !escaped;
        !blank
    };
    REVIEW.bytes().filter(keep).collect()
}
