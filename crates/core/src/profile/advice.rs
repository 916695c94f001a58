//! What is allowed in a profile, but is probably not meant.

use crate::profile::{Mode, OptOut, Profile, ProfileMatch};

/// Remarks on a profile that is good: what it will not do, or do to more than was meant. For warnings when it is
/// applied; nothing depends on them.
pub fn advice(profile: &Profile) -> Vec<String> {
    let mut remarks = Vec::new();
    if profile.mode == Mode::Static && profile.fixed.factors.is_empty() {
        remarks.push("mode Static lowers nothing without static.factors".to_owned());
    }
    if profile.mode == Mode::Dynamic && profile.dynamic.resources.is_empty() {
        remarks.push("mode Dynamic lowers nothing with an empty dynamic.resources".to_owned());
    }
    if profile.mode != Mode::Off && profile.apply && profile.matches == ProfileMatch::default() {
        remarks.push("without match it holds for every pod of the cluster".to_owned());
    }
    if profile.mode != Mode::Off && profile.opt_out != OptOut::Pod {
        remarks.push(
            "optOut other than Pod needs webhook-config/components/enforce: without it the API server does not \
             ask about pods that opt out"
                .to_owned(),
        );
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::advice;
    use crate::profile::from_spec;
    use serde_json::json;

    #[test]
    fn remarks() {
        let pools = json!({"pools": ["shared"]});
        for (rule, spec, part) in [
            ("no factors", json!({"mode": "Static", "match": pools}), Some("static.factors")),
            (
                "no resources",
                json!({"mode": "Dynamic", "match": pools, "dynamic": {"resources": []}}),
                Some("dynamic.resources"),
            ),
            ("no match", json!({"mode": "Static", "static": {"factors": {"cpu": "0.5"}}}), Some("every pod")),
            (
                "opt-outs that the webhook configuration honours",
                json!({"mode": "Dynamic", "match": pools, "optOut": "None"}),
                Some("components/enforce"),
            ),
            ("off", json!({"mode": "Off", "optOut": "None"}), None),
            ("as it should be", json!({"mode": "Dynamic", "match": pools}), None),
        ] {
            let remarks = advice(&from_spec("p", &spec).unwrap());
            assert_eq!(remarks.len(), usize::from(part.is_some()), "{rule}: {remarks:?}");
            assert!(
                remarks.iter().all(|remark| remark.contains(part.unwrap_or_default())),
                "{rule}: {remarks:?}"
            );
        }
    }
}
