//! A pod's container as a process of this machine.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::volumes::Volumes;

/// The listeners, and the ports that the manifests give them. Each pod has an address of its own, so the ports stay;
/// only `0.0.0.0` becomes the pod's address, and so does the loopback address, which all pods would share.
const LISTENERS: [(&str, u16); 5] = [
    ("PLIMSOLL_SERVER__ADDRESS", 8443),
    ("PLIMSOLL_PROBES__ADDRESS", 8081),
    (API, 8082),
    ("PLIMSOLL_PLACEMENT__ADDRESS", 8444),
    ("PLIMSOLL_HPA__API__ADDRESS", 8445),
];

const API: &str = "PLIMSOLL_API__ADDRESS";

/// The program under test with the arguments and the environment of the pod's container.
///
/// What differs from the pod: where listeners listen ([`LISTENERS`]), where mounted folders are, and that the token of
/// the service account comes by a kubeconfig. The environment beats the configuration file.
pub(super) fn command(
    pod: &Value,
    volumes: &Volumes,
    address: Ipv4Addr,
    kubeconfig: Option<&Path>,
) -> Result<Command> {
    let container = &pod["spec"]["containers"][0];
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    // In its image there is nothing else.
    command.env_clear();
    for variable in container["env"].as_array().into_iter().flatten() {
        let name = variable["name"].as_str().context("a variable without a name")?;
        command.env(name, volumes.moved(&value(pod, variable, address)?));
    }
    command.env("HOSTNAME", pod["metadata"]["name"].as_str().unwrap_or_default());
    let open = |number: u16| {
        let mut ports = container["ports"].as_array().into_iter().flatten();
        ports.any(|port| port["containerPort"] == number)
    };
    // An address may turn a listener on, so it is not given to a pod that has none. Nobody but the pod reaches the API.
    for (variable, port) in LISTENERS.into_iter().filter(|(variable, port)| open(*port) || *variable == API) {
        command.env(variable, format!("{address}:{port}"));
    }
    if let Some(folder) = volumes.folder("/etc/plimsoll/tls") {
        command.env("PLIMSOLL_TLS__CERTIFICATE", folder.join("tls.crt"));
        command.env("PLIMSOLL_TLS__KEY", folder.join("tls.key"));
    }
    if let Some(kubeconfig) = kubeconfig {
        command.env("KUBECONFIG", kubeconfig);
    }
    let args = container["args"].as_array().into_iter().flatten();
    command.args(args.map(|arg| volumes.moved(arg.as_str().unwrap_or_default())));
    Ok(command)
}

fn value(pod: &Value, variable: &Value, address: Ipv4Addr) -> Result<String> {
    let Some(from) = variable.get("valueFrom") else {
        return Ok(variable["value"].as_str().unwrap_or_default().to_owned());
    };
    Ok(match from["fieldRef"]["fieldPath"].as_str() {
        Some("metadata.namespace") => pod["metadata"]["namespace"].as_str().unwrap_or_default().to_owned(),
        Some("metadata.name") => pod["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        Some("spec.nodeName") => pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned(),
        Some("status.podIP") => address.to_string(),
        _ => bail!("a variable from a place that is not played here: {variable}"),
    })
}

/// The port and the path of the container's readiness probe.
pub(super) fn readiness(pod: &Value) -> Option<(u16, String)> {
    let container = &pod["spec"]["containers"][0];
    let probe = container.pointer("/readinessProbe/httpGet")?;
    let port = match &probe["port"] {
        Value::String(name) => {
            let mut ports = container["ports"].as_array()?.iter();
            ports.find(|port| port["name"] == name.as_str())?["containerPort"].as_u64()?
        }
        number => number.as_u64()?,
    };
    Some((port.try_into().ok()?, probe["path"].as_str()?.to_owned()))
}
