//! A quota tree in force, with replicas that keep it, for one scenario at a time: a cluster has one tree.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use futures_util::future::try_join_all;
use plimsoll_core::quota::ledger::{Ledger, decode};
use serde_json::{Value, json};

use super::cluster::Refused;
use super::install::{self, Endpoint, NAMESPACE};
use super::objects::{container, gated_pod, pod};
use super::pod_watch::PodWatch;
use super::server::{self, Server};
use super::wait::{LIMIT, until_within};
use super::{World, until};

pub(crate) const TREES: &str = "scheduling.sigs.k8s.io/v1beta1";
pub(crate) const TREE: &str = "ElasticQuotaTree";
const LEDGERS: &str = "plimsoll.dev/v1alpha1";
const LEDGER: &str = "QuotaLedger";
const WEBHOOKS: &str = "plimsoll-quota";
/// The annotation of a stored tree that lets it go while its pods are there.
pub(crate) const FORCE: &str = "plimsoll.dev/force";
/// When a reservation without a pod is old, under [`settings`]; see `quota.reservationAge`.
pub(crate) const OLD_AFTER: Duration = Duration::from_secs(1 + 4 + 5);

/// As fast as the checks allow.
fn settings() -> Value {
    json!({
        "enabled": true,
        "admissionBudget": "2s",
        "webhookTimeout": "4s",
        "reservationAge": "1s",
        "recountInterval": "10s",
        "statusInterval": "1s",
        "leaseDuration": "4s",
        "renewInterval": "500ms",
    })
}

/// Replicas with quota switched on, and the tree of a scenario.
pub(crate) struct Quota<'w> {
    pub(crate) world: &'w World,
    /// Of the scenario, its tree, and in its namespaces.
    pub(crate) name: &'static str,
    config: Value,
    pub(crate) replicas: RefCell<Vec<Server>>,
}

/// Runs a scenario with `replicas` replicas, which have `more` in the section `quota`, and removes its tree afterwards.
pub(crate) async fn with_quota<'w>(
    world: &'w World,
    name: &'static str,
    replicas: usize,
    more: &Value,
    scenario: impl AsyncFnOnce(&Quota<'w>) -> Result<()>,
) -> Result<()> {
    with_configured_quota(world, name, replicas, &json!({"quota": more}), scenario).await
}

/// [`with_quota`], with more of the whole configuration.
pub(crate) async fn with_configured_quota<'w>(
    world: &'w World,
    name: &'static str,
    replicas: usize,
    more: &Value,
    scenario: impl AsyncFnOnce(&Quota<'w>) -> Result<()>,
) -> Result<()> {
    let mut config = json!({"quota": settings()});
    json_patch::merge(&mut config, more);
    install(world).await?;
    // The replica that is there knows nothing of quota; the runner starts one again.
    drop(world.server.lock().await.take());
    world.forget_leases().await?;
    let quota = Quota { world, name, config, replicas: RefCell::default() };
    for _ in 0..replicas {
        quota.start_replica().await?;
    }
    quota.remove_trees().await.context("remove the tree of an earlier scenario")?;
    let outcome = scenario(&quota).await;
    let outcome = outcome.map_err(|error| anyhow!("{error:#}\n\n{}", quota.logs()));
    // Without a replica nobody can answer for the tree.
    if quota.replicas.borrow().is_empty() {
        quota.start_replica().await?;
    }
    let removed = quota.remove_trees().await.context("remove the tree");
    quota.replicas.take();
    outcome.and(removed)
}

/// Puts the component of quota in force. It stays: without a tree it has no effect.
async fn install(world: &World) -> Result<()> {
    let configuration = webhooks("ValidatingWebhookConfiguration");
    if world.cluster.get_opt(&configuration).await?.is_some() {
        return Ok(());
    }
    let components = ["webhook-config/components/quota", "webhook-config/components/resourceflavor-crd"];
    let objects = install::with_components(&world.cluster, &world.folder("quota-component")?, &components)?;
    let ca = world.authority.pem();
    let endpoint = Endpoint { host: &world.host, port: world.service.port(), ca: &ca };
    world.install_more(objects, &endpoint).await
}

fn webhooks(kind: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": WEBHOOKS},
    })
}

impl Quota<'_> {
    /// A further replica, which gets connections.
    pub(crate) async fn start_replica(&self) -> Result<()> {
        let server = self.world.start(Some(&self.config)).await?;
        self.replicas.borrow_mut().push(server);
        Ok(())
    }

    fn logs(&self) -> String {
        let replicas = self.replicas.borrow();
        let tails = replicas.iter().map(|server| format!("{}: {}", server.name, server.tail()));
        tails.collect::<Vec<_>>().join("\n\n")
    }

    /// Takes the replica out that leads (`true`) or one that does not, so that the scenario can end it.
    pub(crate) async fn take_replica(&self, leading: bool) -> Result<Server> {
        let leader = self.leader().await?;
        let mut replicas = self.replicas.borrow_mut();
        let index = replicas.iter().position(|server| (server.name == leader) == leading);
        Ok(replicas.remove(index.with_context(|| format!("no such replica; {leader} leads"))?))
    }

    /// The name of the replica that leads.
    pub(crate) async fn leader(&self) -> Result<String> {
        until("a leader", async || {
            let leases =
                self.world.cluster.list("coordination.k8s.io/v1", "Lease", Some(NAMESPACE), "").await?;
            let lease = leases
                .iter()
                .find(|lease| lease["metadata"]["name"].as_str().is_some_and(|name| name.contains("quota")));
            let holder = lease.and_then(|lease| lease["spec"]["holderIdentity"].as_str()).unwrap_or_default();
            let replicas = self.replicas.borrow();
            let mut names = replicas.iter().map(|server| server.name.clone());
            Ok(names
                .find(|name| holder.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('_'))))
        })
        .await
    }

    /// The sum over all replicas.
    pub(crate) async fn metric(&self, name: &str, labels: &[&str]) -> Result<f64> {
        Ok(self.metrics(name, labels).await?.into_iter().sum())
    }

    /// Of each replica, the sum of a metric's samples whose line has all of `labels`.
    pub(crate) async fn metrics(&self, name: &str, labels: &[&str]) -> Result<Vec<f64>> {
        let probes: Vec<_> = self.replicas.borrow().iter().map(|server| server.probes).collect();
        try_join_all(probes.into_iter().map(|probes| server::metric(probes, name, labels))).await
    }

    /// Namespaces of the scenario's own, with these endings.
    pub(crate) async fn namespaces<const N: usize>(&self, names: [&str; N]) -> Result<[String; N]> {
        let mut all = Vec::with_capacity(N);
        for name in names {
            all.push(self.world.namespace(&format!("{}-{name}", self.name)).await?);
        }
        all.try_into().ok().context("as many as there are names")
    }

    /// The tree as an object, with this root.
    pub(crate) fn tree(&self, root: &Value) -> Value {
        json!({
            "apiVersion": TREES, "kind": TREE,
            "metadata": {"name": self.name, "namespace": "kube-system"},
            "spec": {"root": root},
        })
    }

    /// Creates the tree and waits until it decides about pods in each of `namespaces`. Its root must have a maximum of
    /// CPU.
    pub(crate) async fn plant(&self, root: &Value, namespaces: &[String]) -> Result<Value> {
        let tree = self.tree(root);
        self.world.cluster.create(&tree).await.context("create the tree")?;
        self.in_force(namespaces).await?;
        Ok(tree)
    }

    /// Waits until the tree as it is stored decides about pods in each of `namespaces`, by every replica.
    pub(crate) async fn in_force(&self, namespaces: &[String]) -> Result<()> {
        self.followed().await?;
        self.judged(namespaces).await
    }

    async fn followed(&self) -> Result<()> {
        let tree = self.tree(&Value::Null);
        until("the ledger to follow the tree", async || {
            let stored = self.world.cluster.get(&tree).await?;
            let ledger = self.ledger().await?;
            ensure!(ledger.initialised, "it is not initialised");
            ensure!(
                stored["metadata"]["generation"] == ledger.tree.generation
                    && stored["metadata"]["uid"] == *ledger.tree.uid,
                "the ledger is of {:?}, the tree at {}",
                ledger.tree,
                stored["metadata"]["generation"]
            );
            Ok(Some(()))
        })
        .await
    }

    /// Waits until a tree decides about pods in each of `namespaces`.
    pub(crate) async fn judged(&self, namespaces: &[String]) -> Result<()> {
        // Two calls for each replica: the Service sends connections to them in turn.
        let times = 2 * self.replicas.borrow().len();
        for namespace in namespaces {
            until(format!("pods in {namespace} to be judged"), async || {
                for _ in 0..times {
                    let giant = asks(pod(namespace, "giant", &[]), &json!({"cpu": "1000000"}));
                    match self.world.cluster.create_dry(&giant).await {
                        Ok(_) => anyhow::bail!("one with cpu 1000000 is admitted"),
                        Err(error) => {
                            let text = error.downcast::<Refused>()?.message;
                            ensure!(text.contains("exceeded quota"), "{text}");
                        }
                    }
                }
                Ok(Some(()))
            })
            .await?;
        }
        Ok(())
    }

    /// Removes every tree that there is, and waits until the webhooks ask about no namespace.
    async fn remove_trees(&self) -> Result<()> {
        // As text: one that is too deep for this client may be there.
        let kubectl = |args: &[&str]| {
            let all = args.iter().chain(&["--namespace=kube-system"]);
            self.world.cluster.kubectl.run(all, None)
        };
        let force = format!("{FORCE}=true");
        for tree in kubectl(&["get", "elasticquotatrees", "--output=name"])?.lines() {
            until("the tree to be removed", async || {
                kubectl(&["annotate", "--overwrite", tree, &force])?;
                kubectl(&["delete", "--ignore-not-found", tree]).map(Some)
            })
            .await?;
        }
        until("the webhooks to ask about no namespace", async || {
            let bound = self.bound().await?;
            ensure!(bound.is_empty(), "they ask about {bound:?}");
            Ok(Some(()))
        })
        .await?;
        // With the ledger of another tree about, a new one waits until everything promised by that one has come to be.
        for item in self.world.cluster.list(LEDGERS, LEDGER, Some(NAMESPACE), "").await? {
            let ledger = super::objects::named(LEDGERS, LEDGER, &item);
            self.world.cluster.merge(&ledger, &json!({"metadata": {"finalizers": null}})).await?;
            self.world.cluster.delete(&ledger).await?;
        }
        Ok(())
    }

    /// The namespaces whose pods the API server asks about, sorted.
    pub(crate) async fn bound(&self) -> Result<Vec<String>> {
        let stored = self.world.cluster.get(&webhooks("ValidatingWebhookConfiguration")).await?;
        selected(&stored, "pods.quota.plimsoll.dev")
    }

    /// The namespaces whose pods the API server has placed by flavors, sorted.
    pub(crate) async fn flavored(&self) -> Result<Vec<String>> {
        let stored = self.world.cluster.get(&webhooks("MutatingWebhookConfiguration")).await?;
        selected(&stored, "flavors.quota.plimsoll.dev")
    }

    /// What names the configuration of the webhooks that check.
    pub(crate) fn webhook_configuration() -> Value {
        webhooks("ValidatingWebhookConfiguration")
    }

    /// What names the ledger.
    pub(crate) fn ledger_object(&self) -> Value {
        json!({
            "apiVersion": LEDGERS, "kind": LEDGER,
            "metadata": {"name": format!("plimsoll-{}", self.name), "namespace": NAMESPACE},
        })
    }

    pub(crate) async fn ledger(&self) -> Result<Ledger> {
        let stored = self.world.cluster.get(&self.ledger_object()).await?;
        Ok(decode(stored["spec"]["data"].as_str().context("no data")?)?)
    }

    /// Waits until exactly this much of a resource is used, with nothing only promised. What is not named is not used.
    pub(crate) async fn uses_of(&self, resource: &str, want: &[(&str, i64)]) -> Result<()> {
        let want: BTreeMap<&str, i128> = want
            .iter()
            .filter(|(_, milli)| *milli != 0)
            .map(|(ns, milli)| (*ns, i128::from(*milli)))
            .collect();
        until(format!("{resource} in use, in thousandths: {want:?}"), async || {
            let ledger = self.ledger().await?;
            let used: BTreeMap<&str, i128> = ledger
                .committed
                .iter()
                .map(|(namespace, amounts)| (namespace.as_ref(), amounts.of(resource) / 1_000_000))
                .filter(|(_, milli)| *milli != 0)
                .collect();
            ensure!(used == want, "it is {used:?}");
            ensure!(ledger.reservations.is_empty(), "{} reservations are left", ledger.reservations.len());
            Ok(Some(()))
        })
        .await
    }

    /// [`Quota::uses_of`] in whole cores.
    pub(crate) async fn uses(&self, want: &[(&str, i64)]) -> Result<()> {
        let want: Vec<_> = want.iter().map(|(namespace, cores)| (*namespace, cores * 1000)).collect();
        self.uses_of("cpu", &want).await
    }

    /// Waits until nothing at all is used and promised.
    pub(crate) async fn unused(&self) -> Result<()> {
        self.uses_of("pods", &[]).await
    }

    /// Waits until no reservation is left: pods are counted, and those that never came are known to be absent.
    pub(crate) async fn nothing_reserved(&self) -> Result<()> {
        until_within(OLD_AFTER + LIMIT, "every reservation to end", async || {
            let ledger = self.ledger().await?;
            ensure!(ledger.reservations.is_empty(), "{:?}", ledger.reservations);
            Ok(Some(()))
        })
        .await
    }

    /// Waits until so many claims are in the ledger.
    pub(crate) async fn claims(&self, count: usize) -> Result<()> {
        until(format!("{count} claims"), async || {
            let claims = self.ledger().await?.claims;
            ensure!(claims.len() == count, "there are {}", claims.len());
            Ok(Some(()))
        })
        .await
    }

    pub(crate) async fn watch(&self, namespaces: &[String]) -> Result<PodWatch> {
        PodWatch::start(&self.world.cluster, namespaces).await
    }

    /// Creates a pod; the inner error is the refusal. A denial that only says "try again" is followed, and so is an API
    /// server that was told nothing in time.
    pub(crate) async fn ask(&self, pod: &Value) -> Result<Result<Value, Refused>> {
        until("a decision", async || match self.world.cluster.attempt(pod).await? {
            Err(refused) if refused.code == 429 || refused.is_late() => Err(refused.into()),
            answer => Ok(Some(answer)),
        })
        .await
    }

    /// Creates a pod that must be admitted.
    pub(crate) async fn admitted(&self, rule: &str, pod: &Value) -> Result<Value> {
        self.ask(pod).await?.with_context(|| rule.to_owned())
    }

    /// The text with which a pod is refused, which must hold each of `words`.
    pub(crate) async fn refused(&self, rule: &str, pod: &Value, words: &[&str]) -> Result<String> {
        let answer = self.ask(pod).await?;
        let Err(Refused { code, message, .. }) = answer else { anyhow::bail!("{rule}: it is admitted") };
        ensure!(code == 403, "{rule}: {code}: {message}");
        for word in words {
            ensure!(message.contains(word), "{rule}: {word:?} is not in: {message}");
        }
        Ok(message)
    }
}

/// What the namespace selector of an entry names, sorted.
fn selected(configuration: &Value, entry: &str) -> Result<Vec<String>> {
    let mut all = configuration["webhooks"].as_array().into_iter().flatten();
    let entry = all.find(|webhook| webhook["name"] == entry).context("no such entry")?;
    let expression = &entry["namespaceSelector"]["matchExpressions"][0];
    ensure!(
        expression["key"] == "kubernetes.io/metadata.name" && expression["operator"] == "In",
        "the selector is {}",
        entry["namespaceSelector"]
    );
    let values = expression["values"].as_array().context("no values")?;
    let mut names: Vec<String> = values
        .iter()
        .filter_map(Value::as_str)
        // No namespace: names are in lower case.
        .filter(|name| !name.contains(|letter: char| letter.is_uppercase()))
        .map(Into::into)
        .collect();
    names.sort();
    Ok(names)
}

/// `pod` with one container, which requests these resources and is limited to them where it must be.
pub(crate) fn asks(mut pod: Value, requests: &Value) -> Value {
    let mut resources = json!({"requests": requests});
    for (name, amount) in requests.as_object().into_iter().flatten() {
        if name.contains('/') {
            resources["limits"][name] = amount.clone();
        }
    }
    pod["spec"]["containers"] = json!([container("app", &resources)]);
    pod
}

/// A pod that is counted and not scheduled.
pub(crate) fn asking(namespace: &str, name: &str, requests: &Value) -> Value {
    asks(gated_pod(namespace, name, &[]), requests)
}

/// A pod of so many cores that is counted and not scheduled.
pub(crate) fn cores(namespace: &str, name: &str, cpu: &str) -> Value {
    asking(namespace, name, &json!({"cpu": cpu}))
}

/// A workload of `replicas` pods of so many cores.
pub(crate) fn workload(kind: &str, namespace: &str, name: &str, replicas: usize, cpu: &str) -> Value {
    let template = json!({"metadata": {"labels": {"app": name}}, "spec": asks(pod(namespace, name, &[]), &json!({"cpu": cpu}))["spec"]});
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    })
}

/// The tree T: a root of 40 CPUs over a and b of at most 40, over two leaves each of 10 to 20.
pub(crate) fn tree_t(namespaces: &[String; 4]) -> Value {
    let amounts =
        |cpu: u32, gpu: u32| json!({"cpu": cpu, "memory": format!("{cpu}Gi"), "example.com/gpu": gpu});
    let leaf = |name: &str, namespace: &str| json!({"name": name, "namespaces": [namespace], "max": amounts(20, 2), "min": amounts(10, 1)});
    let [first, second, third, fourth] = namespaces.each_ref();
    let mut large = leaf("a2", second);
    large["max"]["memory"] = "40Gi".into();
    json!({
        "name": "root", "max": amounts(40, 4), "min": amounts(40, 4),
        "children": [
            {"name": "a", "max": amounts(40, 4), "min": amounts(20, 2), "children": [leaf("a1", first), large]},
            {"name": "b", "max": amounts(40, 4), "min": amounts(20, 2),
             "children": [leaf("b1", third), leaf("b2", fourth)]},
        ],
    })
}
