//! Wrong values are refused, with the path of what is wrong.

use crate::rendered::chart;

/// A part that `config` turned on would have no rights, webhooks or ways through the network.
#[test]
fn config_does_not_set_what_has_a_value() {
    let refused = [
        ("tls: {source: Files}", "tls.source", "certificates.source"),
        ("recommender: {enabled: true}", "recommender.enabled", "recommender.enabled"),
        ("recommender: {source: Prometheus}", "recommender.source", "recommender.source"),
        ("hpa: {enabled: true}", "hpa.enabled", "hpa.enabled"),
        ("hpa: {shim: {enabled: true}}", "hpa.shim.enabled", "hpaShim.enabled"),
        ("hpa: {external: {enabled: true}}", "hpa.external.enabled", "hpaExternal.enabled"),
        ("quota: {enabled: true}", "quota.enabled", "quota.enabled"),
        ("quota: {enabled: false}", "quota.enabled", "quota.enabled"),
        ("placement: {enabled: true}", "placement.enabled", "placement.enabled"),
        ("placement: {load: {source: MetricsServer}}", "placement.load.source", "placement.source"),
        ("placement: {address: '0.0.0.0:8444'}", "placement.address", "extender.enabled"),
        ("placement: {loadClass: {enabled: true}}", "placement.loadClass.enabled", "loadClass.enabled"),
        ("placement: {balance: {enabled: true}}", "placement.balance.enabled", "balance.enabled"),
    ];
    for (config, path, value) in refused {
        let error = chart(&format!("config: {{{config}}}")).unwrap_err();
        let said = format!("config.{path} is set: set the value {value} instead");
        assert!(error.contains(&said), "{config}: {said:?} is not in {error}");
    }
    for section in ["server", "probes"] {
        let error = chart(&format!("config: {{{section}: {{address: '0.0.0.0:9999'}}}}")).unwrap_err();
        assert!(error.contains(&format!("config.{section}.address is set: leave it out")), "{error}");
    }
    for allowed in ["placement: {balance: {dryRun: false}}", "quota: {webhookTimeout: 5s}", "hpa: null"] {
        chart(&format!("config: {{{allowed}}}")).unwrap();
    }
}

#[test]
fn a_budget_lets_nodes_be_drained() {
    for (replicas, least, is_right) in [
        (2, "1", true),
        (2, "2", false),
        (3, "2", true),
        (3, "4", false),
        (2, "50%", true),
        (2, "51%", false),
        (3, "100%", false),
        (1, "1", true),
    ] {
        let values = format!("{{replicas: {replicas}, podDisruptionBudget: {{minAvailable: {least}}}}}");
        match chart(&values) {
            Ok(_) => assert!(is_right, "{values}"),
            Err(error) => assert!(!is_right && error.contains("fewer than replicas"), "{values}: {error}"),
        }
    }
    chart("{replicas: 2, podDisruptionBudget: {enabled: false, minAvailable: 2}}").unwrap();
}

#[test]
fn wrong_values_are_refused() {
    for (rule, values, said) in [
        ("a value that there is not", "replica: 3", "additional properties 'replica' not allowed"),
        ("one level down", "quota: {on: true}", "/quota'"),
        ("a text for a flag", "quota: {enabled: 'yes'}", "/quota/enabled'"),
        ("no server", "replicas: 0", "/replicas'"),
        ("half a server", "replicas: 1.5", "/replicas'"),
        ("a word that is none", "certificates: {source: SelfManaged}", "/certificates/source'"),
        ("a word of Kubernetes that is none", "image: {pullPolicy: always}", "/image/pullPolicy'"),
        ("a tag with a blank", "image: {tag: 'v 1'}", "/image/tag'"),
        ("a tag in the repository", "image: {repository: 'a/b:1'}", "/image/repository'"),
        ("half a digest", "image: {digest: 'sha256:12'}", "/image/digest'"),
        ("a Secret without a name", "imagePullSecrets: [{}]", "/imagePullSecrets/0'"),
        ("a name in upper case", "certificates: {secretName: TLS}", "/certificates/secretName'"),
        (
            "a namespace with a dot",
            "networkPolicy: {monitoringNamespace: a.b}",
            "/networkPolicy/monitoringNamespace'",
        ),
        ("a port that is none", "networkPolicy: {prometheus: {port: 0}}", "/networkPolicy/prometheus/port'"),
        ("an address without a scheme", "prometheus: {address: 'prometheus:9090'}", "/prometheus/address'"),
        ("a source that is none", "recommender: {source: prometheus}", "/recommender/source'"),
        (
            "a percentage above all",
            "podDisruptionBudget: {minAvailable: 200%}",
            "/podDisruptionBudget/minAvailable'",
        ),
        ("a spread that is none", "topologySpread: {nodes: Always}", "/topologySpread/nodes'"),
        ("not a quantity", "resources: {limits: {memory: 256MB}}", "/resources/limits/memory'"),
        ("a negative quantity", "resources: {requests: {cpu: -1}}", "/resources/requests/cpu'"),
        ("a key that is no label's", "podLabels: {'a b': c}", "/podLabels'"),
        (
            "the label that is ours",
            "podLabels: {app.kubernetes.io/name: x}",
            "/podLabels/app.kubernetes.io~1name'",
        ),
        ("a number for a label", "nodeSelector: {a: 1}", "/nodeSelector/a'"),
        ("a map for a list", "tolerations: {key: a}", "/tolerations'"),
        (
            "a path that is none",
            "extraVolumeMounts: [{name: a, mountPath: b}]",
            "/extraVolumeMounts/0/mountPath'",
        ),
        ("no time at all", "uninstall: {timeoutSeconds: 0}", "/uninstall/timeoutSeconds'"),
        (
            "an interval without a unit",
            "monitoring: {serviceMonitor: {interval: '30'}}",
            "/monitoring/serviceMonitor/interval'",
        ),
        ("a text for the configuration", "config: 'log: {}'", "/config'"),
    ] {
        let error = chart(values).expect_err(rule);
        assert!(error.contains(said), "{rule}: {said:?} is not in {error}");
    }
}

/// What the schema cannot say is said by the chart.
#[test]
fn values_that_do_not_fit_together_are_refused() {
    for (rule, values, said) in [
        ("Prometheus is nowhere", "recommender: {source: Prometheus}", "set prometheus.address"),
        ("nor for placement", "placement: {enabled: true}", "or placement.source to MetricsServer"),
        ("a part of placement", "extender: {enabled: true}", "set placement.enabled to true too"),
        (
            "a part of placement",
            "balance: {enabled: true}",
            "balance.enabled is true: it is a part of placement",
        ),
        (
            "a part of autoscalers",
            "{hpa: {enabled: false}, hpaShim: {enabled: true}}",
            "set hpa.enabled to true too",
        ),
        (
            "whom to trust about usage",
            "{hpaShim: {enabled: true}, metricsServer: {insecureSkipVerify: false}}",
            "set config.hpa.api.upstreamCa",
        ),
        ("no time to end", "{terminationGracePeriodSeconds: 0}", "terminationGracePeriodSeconds"),
    ] {
        let error = chart(values).expect_err(rule);
        assert!(error.contains(said), "{rule}: {said:?} is not in {error}");
    }
}
