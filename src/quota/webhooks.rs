//! Which namespaces the API server asks us about.
//!
//! The selectors name every bound namespace. A label would leave a gap for new namespaces, and whoever may label a
//! namespace could take it out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use kube::core::Request;
use kube::core::params::{GetParams, Patch, PatchParams};
use plimsoll_core::quota::{TREE_NAMESPACE, Tree};
use serde_json::{Value, json};

use super::{CALL_TIMEOUT, MANAGER};
use crate::certificates::bundles::INJECTION;
use crate::cluster::{Call, WriteError, send};
use crate::server::CertificateStore;

/// The entry that checks pods against the tree; it fails closed.
pub const PODS_WEBHOOK: &str = "pods.quota.plimsoll.dev";
/// The entry that adds the node affinity of `ResourceFlavor`s.
pub const FLAVORS_WEBHOOK: &str = "flavors.quota.plimsoll.dev";

/// The label that the API server itself puts on each namespace; nobody can give it another value.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// A value that the label may have and no namespace does: names are in lower case. A list must not be empty.
const NOTHING: &str = "Nothing.Bound";

/// The namespaces that a tree binds, but for `kube-system` and our own.
pub fn bound<'a>(tree: &'a Tree, own: &str) -> BTreeSet<&'a str> {
    let names = tree.namespaces().map(|(name, _)| name.as_ref());
    names.filter(|name| *name != TREE_NAMESPACE && *name != own).collect()
}

/// Those of them that have a flavor at their leaf or above it.
pub fn flavored<'a>(tree: &'a Tree, own: &str) -> BTreeSet<&'a str> {
    let has_flavors = |name: &&str| {
        tree.leaf_of(name).is_some_and(|leaf| tree.upwards(leaf).any(|(_, node)| !node.flavors.is_empty()))
    };
    bound(tree, own).into_iter().filter(has_flavors).collect()
}

/// The `namespaceSelector` that matches exactly these namespaces; none of them: nothing at all.
pub fn namespace_selector(names: &BTreeSet<&str>) -> Value {
    let values = if names.is_empty() { json!([NOTHING]) } else { json!(names) };
    json!({ "matchExpressions": [{ "key": NAME_LABEL, "operator": "In", "values": values }] })
}

/// The namespaces that our expression in a selector names, whatever others have added beside it; nothing if none is ours.
fn named(selector: &Value) -> BTreeSet<&str> {
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    let is =
        |expression: &Value, key: &str, text: &str| expression.get(key).and_then(Value::as_str) == Some(text);
    let ours = |expression: &&Value| is(expression, "key", NAME_LABEL) && is(expression, "operator", "In");
    let values =
        expressions.into_iter().flatten().filter(ours).filter_map(|expression| expression.get("values"));
    let names = values.filter_map(Value::as_array).flatten().filter_map(Value::as_str);
    names.filter(|name| *name != NOTHING).collect()
}

/// What is to become of the namespaces that are named and not bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    Stay,
    Go,
}

/// So often in a row an entry is written again without a word to the operator: an upgrade does it once.
const REWRITES: u32 = 3;

/// One of the two configurations, and the entry in it that is ours to keep.
#[derive(Clone, Copy, Debug)]
struct Target {
    kind: &'static str,
    plural: &'static str,
    webhook: &'static str,
    /// Whether `timeoutSeconds` is kept too.
    timeout: bool,
}

const TARGETS: [Target; 2] = [
    Target {
        kind: "ValidatingWebhookConfiguration",
        plural: "validatingwebhookconfigurations",
        webhook: PODS_WEBHOOK,
        timeout: true,
    },
    Target {
        kind: "MutatingWebhookConfiguration",
        plural: "mutatingwebhookconfigurations",
        webhook: FLAVORS_WEBHOOK,
        timeout: false,
    },
];

const GROUP: &str = "admissionregistration.k8s.io";

/// Keeps the selectors of the quota webhooks. Only the leader does.
#[derive(Clone)]
pub struct WebhookKeeper {
    client: Client,
    name: String,
    own: String,
    timeout_seconds: u64,
    /// That of this replica, where Plimsoll itself writes what the API server trusts.
    certificate: Option<Arc<CertificateStore>>,
    /// By entry: what was written last, and how often in a row somebody had changed that before it was looked at again.
    rewritten: Arc<Mutex<BTreeMap<&'static str, (Value, u32)>>>,
}

impl std::fmt::Debug for WebhookKeeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebhookKeeper").field("name", &self.name).finish_non_exhaustive()
    }
}

impl WebhookKeeper {
    /// Keeps the configurations called `name`; `own` is our own namespace, which is never bound. `webhook_timeout` is
    /// written as `timeoutSeconds` of the entry that checks pods: how long a reservation lives depends on it.
    pub fn new(client: Client, name: String, own: String, webhook_timeout: Duration) -> Self {
        let timeout_seconds = webhook_timeout.as_secs().clamp(1, 30);
        Self { client, name, own, timeout_seconds, certificate: None, rewritten: Arc::default() }
    }

    /// Binds no further namespaces before the API server can call: before the entry has a `caBundle`, which Plimsoll
    /// writes, and before this replica has a certificate. The entry fails closed, so that it could only deny.
    #[must_use]
    pub fn with_certificate(self, certificate: Arc<CertificateStore>) -> Self {
        Self { certificate: Some(certificate), ..self }
    }

    /// Why the API server could not call, if it is known.
    ///
    /// Without a `caBundle` it trusts the authorities of its system, which is somebody's choice unless whoever writes it
    /// is late.
    fn uncallable(&self, object: &Value, webhook: &Value) -> Option<String> {
        let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object);
        let is_injected = annotations.is_some_and(|all| all.keys().any(|key| key.starts_with(INJECTION)));
        let bundle = webhook.pointer("/clientConfig/caBundle").and_then(Value::as_str).unwrap_or_default();
        let writer = match &self.certificate {
            Some(_) => "the replica that holds the Lease plimsoll-certs",
            None => "cert-manager",
        };
        if bundle.is_empty() && (is_injected || self.certificate.is_some()) {
            return Some(format!("its caBundle is empty, and {writer} is yet to write it"));
        }
        self.certificate.as_ref().and_then(|certificate| certificate.check().err())
    }

    /// Adds the namespaces of a tree to those that are named and to those of the tree `before`: what must be done before
    /// the tree counts.
    ///
    /// # Errors
    /// See [`WriteError::next`]. Each configuration was tried.
    pub async fn widen(&self, tree: &Tree, before: &Tree) -> Result<(), WriteError> {
        self.keep_all(tree, Some(before)).await
    }

    /// Lets the selectors name the namespaces of a tree and no others: what is done after the tree counts, and whenever
    /// somebody may have edited them. Nothing is written when they do already.
    ///
    /// # Errors
    /// See [`WriteError::next`]. Each configuration was tried.
    pub async fn keep(&self, tree: &Tree) -> Result<(), WriteError> {
        self.keep_all(tree, None).await
    }

    async fn keep_all(&self, tree: &Tree, before: Option<&Tree>) -> Result<(), WriteError> {
        let mut result = Ok(());
        for target in &TARGETS {
            let of = |tree| if target.timeout { bound(tree, &self.own) } else { flavored(tree, &self.own) };
            let mut names = of(tree);
            names.extend(before.map(of).into_iter().flatten());
            let others = if before.is_some() { Others::Stay } else { Others::Go };
            result = result.and(self.keep_one(target, names, others).await);
        }
        result
    }

    /// Notes that an entry is written, or stands as it should. How often in a row somebody had changed what was written.
    fn note(&self, target: &Target, wanted: Value, writes: bool) -> u32 {
        let mut all = self.rewritten.lock().unwrap_or_else(PoisonError::into_inner);
        let again = match all.get(target.webhook) {
            Some((before, count)) if writes && *before == wanted => count.saturating_add(1),
            _ => 0,
        };
        all.insert(target.webhook, (wanted, again));
        again
    }

    fn again_and_again(&self, target: &Target) -> String {
        format!(
            "the namespaceSelector or timeoutSeconds of {} is written again and again, since somebody else keeps changing \
             it: what binds pods to their quota is Plimsoll's alone. Look for an admission policy, or for a tool that \
             applies the manifests without leaving these fields out; `kubectl get {} {} -o yaml --show-managed-fields` \
             shows who wrote last",
            target.webhook, target.plural, self.name
        )
    }

    async fn keep_one(
        &self,
        target: &Target,
        mut names: BTreeSet<&str>,
        others: Others,
    ) -> Result<(), WriteError> {
        let request = Request::new(format!("/apis/{GROUP}/v1/{}", target.plural));
        let mut call = Call {
            verb: "get",
            kind: target.kind,
            resource: target.plural,
            group: GROUP,
            object: &self.name,
            bytes: 0,
        };
        let text =
            send(&self.client, call, request.get(&self.name, &GetParams::default()), CALL_TIMEOUT).await?;
        let object: Value = serde_json::from_str(&text)
            .map_err(|error| call.unavailable(format!("the answer is no object: {error}")))?;
        let webhooks = object.get("webhooks").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let ours = |webhook: &Value| webhook.get("name").and_then(Value::as_str) == Some(target.webhook);
        let Some((index, webhook)) = webhooks.iter().enumerate().find(|(_, webhook)| ours(webhook)) else {
            let message = format!(
                "it has no webhook {}; apply the component webhook-config/components/quota",
                target.webhook
            );
            return Err(WriteError::NotFound {
                what: format!("keep {} {}", target.kind, self.name),
                message,
            });
        };
        let current = webhook.get("namespaceSelector").unwrap_or(&Value::Null);
        if others == Others::Stay {
            names.extend(named(current));
        }
        let bound_now = named(current);
        let what = || format!("keep {} {}", target.kind, self.name);
        // Which namespaces it matches with what others have written is not known.
        let is_ours = *current == namespace_selector(&bound_now);
        let widens = !is_ours || !names.is_subset(&bound_now);
        let uncallable = if widens { self.uncallable(&object, webhook) } else { None };
        let result = match uncallable {
            Some(why) if !is_ours => {
                let message = format!(
                    "somebody changed the namespaceSelector of {}, which is left as it is, since pods in further \
                     namespaces could only be refused: {why}",
                    target.webhook
                );
                return Err(WriteError::NotFound { what: what(), message });
            }
            Some(why) => {
                names.retain(|name| bound_now.contains(name));
                let message = format!(
                    "no further namespaces are bound, since pods in them could only be refused: {why}"
                );
                Err(WriteError::NotFound { what: what(), message })
            }
            None => Ok(()),
        };
        let selector = namespace_selector(&names);
        let mut operations = vec![json!({
            "op": "test", "path": format!("/webhooks/{index}/name"), "value": target.webhook,
        })];
        let mut set = |field: &str, value: Value| {
            if webhook.get(field) != Some(&value) {
                operations.push(
                    json!({ "op": "add", "path": format!("/webhooks/{index}/{field}"), "value": value }),
                );
            }
        };
        let wanted = json!([selector, self.timeout_seconds]);
        set("namespaceSelector", selector);
        if target.timeout {
            set("timeoutSeconds", json!(self.timeout_seconds));
        }
        if operations.len() == 1 {
            self.note(target, wanted, false);
            return result;
        }
        call.verb = "patch";
        let patch: json_patch::Patch = serde_json::from_value(Value::Array(operations))
            .map_err(|error| call.unavailable(format!("no patch could be made: {error}")))?;
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let request = request.patch(&self.name, &parameters, &Patch::<()>::Json(patch));
        match send(&self.client, call, request, CALL_TIMEOUT).await {
            Ok(_) => {
                let again = self.note(target, wanted, true);
                if again >= REWRITES {
                    let message = self.again_and_again(target);
                    return result.and(Err(WriteError::NotFound { what: what(), message }));
                }
                tracing::info!(
                    kind = target.kind,
                    namespaces = names.len(),
                    "the namespaces of a quota webhook were written"
                );
                result
            }
            // The test failed: somebody moved the entry since it was read.
            Err(WriteError::Refused { what, code: 422, .. }) => Err(WriteError::Conflict { what }),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_core::quota::Node;

    use super::*;

    fn tree(leaves: &[(&[&str], &[&str])], root_flavors: &[&str]) -> Tree {
        let texts = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect();
        let root = Node { name: "root".into(), flavors: texts(root_flavors), ..Node::default() };
        let parent = Tree::new("t", "", 0, [root.clone()]).id(0);
        let leaves = leaves.iter().enumerate().map(|(index, (namespaces, flavors))| Node {
            name: format!("leaf-{index}").into(),
            parent,
            namespaces: texts(namespaces),
            flavors: texts(flavors),
            ..Node::default()
        });
        Tree::new("t", "", 0, std::iter::once(root).chain(leaves))
    }

    #[test]
    fn selectors_name_what_is_bound() {
        for (rule, leaves, root_flavors, all, with_flavors) in [
            ("no tree", &[][..], &[][..], vec![], vec![]),
            ("sorted", &[(&["b", "c"][..], &[][..]), (&["a"], &[])], &[], vec!["a", "b", "c"], vec![]),
            ("flavors of a leaf", &[(&["b"], &["spot"]), (&["a"], &[])], &[], vec!["a", "b"], vec!["b"]),
            ("flavors above it", &[(&["b"], &[]), (&["a"], &[])], &["spot"], vec!["a", "b"], vec!["a", "b"]),
            (
                "never these",
                &[(&["kube-system", "plimsoll-system", "a"], &["spot"])],
                &[],
                vec!["a"],
                vec!["a"],
            ),
        ] {
            let tree = tree(leaves, root_flavors);
            let expected: BTreeSet<&str> = all.into_iter().collect();
            assert_eq!(bound(&tree, "plimsoll-system"), expected, "{rule}");
            assert_eq!(flavored(&tree, "plimsoll-system"), with_flavors.into_iter().collect(), "{rule}");
            let selector = namespace_selector(&expected);
            assert_eq!(named(&selector), expected, "{rule}");
            let values = selector["matchExpressions"][0]["values"].as_array().unwrap();
            assert!(!values.is_empty(), "{rule}: the API server refuses an empty list");
        }
    }

    #[test]
    fn nothing_is_a_label_value_and_no_namespace() {
        assert!(!crate::config::is_label(NOTHING));
        assert!(NOTHING.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '.'));
        let first_and_last = [NOTHING.chars().next(), NOTHING.chars().last()];
        assert!(first_and_last.iter().all(|letter| letter.is_some_and(char::is_alphanumeric)));
    }

    #[test]
    fn our_expression_is_found_among_others() {
        let ours = json!({"key": NAME_LABEL, "operator": "In", "values": ["shop", NOTHING]});
        let theirs = json!({"key": "team", "operator": "In", "values": ["a"]});
        for (rule, selector) in [
            ("before", json!({"matchExpressions": [theirs, ours]})),
            ("after", json!({"matchExpressions": [ours, theirs]})),
            ("labels", json!({"matchExpressions": [ours], "matchLabels": {"team": "a"}})),
        ] {
            assert_eq!(named(&selector), ["shop"].into(), "{rule}");
        }
    }

    #[test]
    fn selectors_of_others_name_nothing() {
        for selector in [
            json!(null),
            json!({}),
            json!({"matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}]}),
            json!({"matchExpressions": [{"key": NAME_LABEL, "operator": "NotIn", "values": ["a"]}]}),
        ] {
            assert_eq!(named(&selector), BTreeSet::new(), "{selector}");
        }
    }
}
