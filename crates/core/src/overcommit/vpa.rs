//! Requests that the Vertical Pod Autoscaler set are final.

use std::collections::BTreeSet;

use crate::resource::Resource;

/// The resources whose requests VPA set for any container, from its annotation: a prefix up to the
/// first `: `, then one part a container, as in `Pod resources updated by v: container 0: cpu request;
/// container 1: cpu request, memory request`.
///
/// The indices there move when other webhooks insert sidecars, so they are not used: a resource named
/// for any container counts for all app containers.
pub fn final_resources(annotation: Option<&str>) -> BTreeSet<Resource> {
    let Some((_, parts)) = annotation.and_then(|text| text.split_once(": ")) else {
        return BTreeSet::new();
    };
    parts
        .split("; ")
        .flat_map(|part| part.rsplit_once(": ").map_or(part, |(_, list)| list).split(", "))
        .filter_map(|item| item.trim().strip_suffix(" request"))
        .filter_map(Resource::from_name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::final_resources;
    use crate::resource::Resource::{self, Cpu, Memory};

    #[test]
    fn annotations() {
        let none: &[Resource] = &[];
        for (rule, text, expected) in [
            ("one resource", "Pod resources updated by v: container 0: cpu request", &[Cpu][..]),
            (
                "two containers",
                "Pod resources updated by v: container 0: cpu request; container 1: memory request",
                &[Cpu, Memory],
            ),
            (
                "two resources",
                "Pod resources updated by v: container 0: cpu request, memory request",
                &[Cpu, Memory],
            ),
            ("limits are not requests", "Pod resources updated by v: container 0: cpu limit", none),
            ("no parts", "Pod resources updated by v", none),
            ("capping is no setting", "Pod resources updated by v: container 0: cpu capped to limit", none),
            ("empty", "", none),
        ] {
            assert_eq!(
                final_resources(Some(text)).into_iter().collect::<Vec<_>>(),
                expected,
                "{rule}: {text:?}"
            );
        }
        assert!(final_resources(None).is_empty());
    }
}
