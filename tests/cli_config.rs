//! The program as it is called: exit codes, help, completions, configuration, certificates.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::too_many_lines,
    reason = "helpers of tests and long tables; a panic is how a test fails"
)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// What a run of the program gave.
#[derive(Debug)]
struct Run {
    code: Option<i32>,
    out: String,
    err: String,
}

fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    // Nothing of the surroundings but what the loader needs.
    command.env_clear().stdin(Stdio::null());
    command
}

fn plimsoll<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Run {
    with_environment(arguments, &[])
}

fn with_environment<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>, pairs: &[(&str, &str)]) -> Run {
    let mut command = command(env!("CARGO_BIN_EXE_plimsoll"));
    ran(command.args(arguments).envs(pairs.iter().copied()).output().unwrap())
}

fn ran(output: Output) -> Run {
    Run {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The path of a file in a directory, as an argument.
fn path(directory: &Path, name: &str) -> String {
    directory.join(name).to_str().unwrap().to_owned()
}

fn file(directory: &Path, name: &str, text: &str) -> String {
    fs::write(directory.join(name), text).unwrap();
    path(directory, name)
}

#[test]
fn usage_has_its_exit_codes() {
    let table: [(&str, &[&str], i32, &str); 12] = [
        ("nothing", &[], 2, "Usage: plimsoll"),
        ("version", &["--version"], 0, "plimsoll 0."),
        ("short version", &["-V"], 0, "plimsoll 0."),
        ("help", &["--help"], 0, "Usage: plimsoll"),
        ("help command", &["help", "config"], 0, "Usage: plimsoll config"),
        ("unknown command", &["sail"], 2, "unrecognized subcommand"),
        ("unknown flag", &["config", "check", "--colour"], 2, "unexpected argument"),
        ("command of a command missing", &["config"], 2, "Usage: plimsoll config"),
        ("unknown shell", &["completions", "tcsh"], 2, "possible values: bash, zsh, fish"),
        ("unknown form", &["config", "print", "-o", "xml"], 2, "possible values: yaml, json, table"),
        (
            "configuration missing",
            &["--config", "/nonexistent/c.yaml", "config", "check"],
            2,
            "cannot be read",
        ),
        ("certificates without a place", &["certs"], 2, "--dir <DIR>"),
    ];
    for (rule, arguments, code, part) in table {
        let run = plimsoll(arguments);
        assert_eq!(run.code, Some(code), "{rule}: {run:?}");
        let text = if code == 0 { &run.out } else { &run.err };
        assert!(text.contains(part), "{rule}: {run:?}");
        assert!(code == 0 || run.out.is_empty(), "{rule}: {run:?}");
    }
}

#[test]
fn every_command_has_examples() {
    let commands: [&[&str]; 8] = [
        &[],
        &["config"],
        &["config", "check"],
        &["config", "print"],
        &["certs"],
        &["certs", "inspect"],
        &["completions"],
        &["man"],
    ];
    for command in commands {
        for flag in ["-h", "--help"] {
            let run = plimsoll(command.iter().chain([&flag]));
            let examples =
                run.out.split("EXAMPLES:").nth(1).unwrap_or_else(|| panic!("{command:?}: {run:?}"));
            let word = command.last().unwrap_or(&"plimsoll");
            assert!(examples.contains("\n  # ") && examples.contains(word), "{command:?}: {examples}");
        }
    }
}

#[test]
fn the_plugin_shows_its_own_name() {
    let directory = tempfile::tempdir().unwrap();
    let plugin = directory.path().join("kubectl-plimsoll");
    symlink(env!("CARGO_BIN_EXE_plimsoll"), &plugin).unwrap();
    let help = |arguments: &[&str]| ran(command(&plugin).args(arguments).output().unwrap()).out;
    let text = help(&["config", "check", "--help"]);
    assert!(text.contains("Usage: kubectl-plimsoll config check"), "{text}");
    assert!(text.contains("\n  kubectl-plimsoll --config config.yaml config check"), "{text}");
    assert!(help(&["--version"]).starts_with("kubectl-plimsoll 0."));
    assert!(help(&["completions", "bash"]).contains("kubectl__plimsoll"));
}

#[test]
fn output_is_not_coloured_elsewhere_than_on_a_terminal() {
    for arguments in [&["--help"][..], &["sail"], &["config", "print", "-o", "table"]] {
        let run = plimsoll(arguments);
        assert!(!run.out.contains('\u{1b}') && !run.err.contains('\u{1b}'), "{run:?}");
    }
}

#[test]
fn completions_are_scripts() {
    for (shell, part) in
        [("bash", "complete -F"), ("zsh", "#compdef plimsoll"), ("fish", "complete -c plimsoll")]
    {
        let run = plimsoll(["completions", shell]);
        assert_eq!(run.code, Some(0), "{shell}");
        assert!(run.out.contains(part) && run.out.contains("certs"), "{shell}: {}", run.out);
    }
}

#[test]
fn manual_pages_are_written() {
    let page = plimsoll(["man"]);
    assert_eq!(page.code, Some(0));
    assert!(page.out.contains(".TH plimsoll 1"), "{}", page.out);
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(plimsoll(["man", "--dir", &path(directory.path(), "man1")]).code, Some(0));
    for name in ["plimsoll.1", "plimsoll-config-check.1", "plimsoll-certs-inspect.1"] {
        assert!(directory.path().join("man1").join(name).exists(), "{name}");
    }
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let mut child = command(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let run = ran(child.wait_with_output().unwrap());
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
}

#[test]
fn a_full_disk_is_a_failure() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output =
        command(env!("CARGO_BIN_EXE_plimsoll")).args(["completions", "bash"]).stdout(full).output().unwrap();
    let run = ran(output);
    assert_eq!(run.code, Some(3), "{run:?}");
    assert!(run.err.starts_with("error: "), "{run:?}");
}

#[test]
fn help_that_cannot_be_written_is_a_failure_but_a_closed_pipe_is_none() {
    for arguments in [&["--version"][..], &["--help"], &["help", "serve"], &["config", "--help"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command(env!("CARGO_BIN_EXE_plimsoll")).args(arguments).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("standard output cannot be written"));

        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(env!("CARGO_BIN_EXE_plimsoll")).args(arguments).stdout(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    }
}

#[test]
fn checks_name_every_violation() {
    let directory = tempfile::tempdir().unwrap();
    let bad = file(directory.path(), "bad.yaml", "server: {drainDelay: 5x}\nlgo: {}\n");
    let run = plimsoll(["--config", &bad, "config", "check"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let lines: Vec<&str> = run.out.lines().collect();
    assert_eq!(lines.len(), 2, "{run:?}");
    assert!(lines[0].starts_with("lgo: is not a setting; log may be meant (from file "), "{run:?}");
    assert!(lines[1].starts_with("server.drainDelay: \"5x\" is not a duration; write an integer"), "{run:?}");

    let run = plimsoll(["--config", &bad, "config", "check", "-o", "json"]);
    assert_eq!(run.code, Some(1));
    let answer: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(answer["valid"], false);
    assert_eq!(answer["violations"][1]["path"], "server.drainDelay");
    assert_eq!(answer["violations"][1]["origin"], format!("file {bad}"));

    // Others than check cannot go on: it is their input that is wrong.
    let run = plimsoll(["--config", &bad, "config", "print"]);
    assert_eq!(run.code, Some(2));
    assert_eq!(run.err.lines().filter(|line| line.starts_with("error: ")).count(), 2, "{run:?}");
}

#[test]
fn a_good_configuration_is_said_to_be_good() {
    let directory = tempfile::tempdir().unwrap();
    let good = file(directory.path(), "good.toml", "[log]\nlevel = \"warn\"\n");
    for (form, expected) in [("text", "the configuration is valid"), ("json", "\"valid\": true")] {
        let run = with_environment(["config", "check", "-o", form], &[("PLIMSOLL_CONFIG", &good)]);
        assert_eq!(run.code, Some(0), "{run:?}");
        assert!(run.out.contains(expected), "{run:?}");
    }
    let run = with_environment(["config", "check"], &[("PLIMSOLL_LOG__LEVEL", "loud")]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let run =
        with_environment(["config", "check", "--log-level", "debug"], &[("PLIMSOLL_LOG__LEVEL", "loud")]);
    assert_eq!(run.code, Some(0), "{run:?}");
}

#[test]
fn the_printed_configuration_reads_back() {
    let directory = tempfile::tempdir().unwrap();
    let text = "
log: {level: warn}
tls: {names: [a.example, '::1'], minVersion: 1.3}
recommender: {prometheus: {headers: [{name: X-Scope-OrgID, value: a}]}, shards: 3}
profiles:
  - name: shared-pool
    spec: {static: {factors: {cpu: '0.5'}}, match: {pools: ['yes', '1e3', 'a.b']}}
";
    let original = file(directory.path(), "original.yaml", text);
    let printed = plimsoll(["--config", &original, "config", "print"]);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    assert!(printed.out.contains(&format!("  level: \"warn\" # from file {original}\n")), "{}", printed.out);
    assert!(printed.out.contains("  format: \"Auto\" # from default\n"), "{}", printed.out);
    let again = file(directory.path(), "again.yaml", &printed.out);
    let values = |config: &str| {
        let run = plimsoll(["--config", config, "config", "print", "-o", "json"]);
        let answer: Value = serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {run:?}"));
        answer["values"].clone()
    };
    assert_eq!(values(&original), values(&again));

    let run = with_environment(
        ["config", "print", "-o", "json", "--log-format", "JSON"],
        &[("POD_NAMESPACE", "ns")],
    );
    let answer: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(answer["origins"]["log.format"], "flag --log-format");
    assert_eq!(answer["origins"]["admission.ownNamespace"], "environment POD_NAMESPACE");
    assert_eq!(answer["values"]["admission"]["ownNamespace"], "ns");

    let table = plimsoll(["--config", &original, "config", "print", "-o", "table"]).out;
    let row = table.lines().find(|line| line.starts_with("profiles")).unwrap();
    assert!(row.contains("shared-pool"), "{table}");
}

#[test]
fn certificates_are_made_and_kept() {
    let directory = tempfile::tempdir().unwrap();
    let out = path(directory.path(), "out");
    let make = |more: &[&str]| plimsoll(["certs", "--dir", &out].iter().chain(more));
    let run = make(&["--service", "plimsoll", "--namespace", "sys", "--name", "192.0.2.7", "--days", "30"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let mut found: Vec<(String, u32)> = fs::read_dir(&out)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            (entry.file_name().into_string().unwrap(), mode)
        })
        .collect();
    found.sort();
    let expected = [("ca.crt", 0o644), ("ca.key", 0o600), ("tls.crt", 0o644), ("tls.key", 0o600)];
    assert_eq!(found, expected.map(|(name, mode)| (name.to_owned(), mode)));

    let before = fs::read(Path::new(&out).join("tls.crt")).unwrap();
    let run = make(&[]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.err.contains("is there already; --force overwrites it"), "{run:?}");
    assert_eq!(fs::read(Path::new(&out).join("tls.crt")).unwrap(), before);

    let inspect =
        plimsoll(["certs", "inspect", &format!("{out}/tls.crt"), &format!("{out}/tls.key"), "-o", "json"]);
    assert_eq!(inspect.code, Some(0), "{inspect:?}");
    let report: Value = serde_json::from_str(&inspect.out).unwrap();
    let certificate = &report["certificates"][0];
    let names =
        ["192.0.2.7", "plimsoll.sys.svc", "plimsoll.sys.svc.cluster.local", "plimsoll.sys", "plimsoll"];
    assert_eq!(certificate["names"], serde_json::json!(names));
    assert_eq!(certificate["state"], "valid");
    assert_eq!(certificate["issuer"], "CN=plimsoll CA");
    assert_eq!(certificate["key"], format!("{out}/tls.key"));
    assert_eq!(report["keys"][0]["matches"], true);

    assert_eq!(make(&["--force"]).code, Some(0));
    assert_ne!(fs::read(Path::new(&out).join("tls.crt")).unwrap(), before);
}

#[test]
fn a_made_pair_is_accepted_by_a_tls_client() {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use std::sync::Arc;

    let directory = tempfile::tempdir().unwrap();
    let out = directory.path();
    let arguments = ["certs", "--dir", out.to_str().unwrap(), "--service", "plimsoll"];
    assert_eq!(plimsoll(arguments).code, Some(0));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = vec![CertificateDer::from_pem_file(out.join("tls.crt")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(out.join("tls.key")).unwrap();
    let server = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(out.join("ca.crt")).unwrap()).unwrap();
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (client, server) = (Arc::new(client), Arc::new(server));
    for (name, good) in [("plimsoll.plimsoll-system.svc", true), ("other.plimsoll-system.svc", false)] {
        let name = ServerName::try_from(name).unwrap();
        let mut client = rustls::ClientConnection::new(client.clone(), name).unwrap();
        let mut server = rustls::ServerConnection::new(server.clone()).unwrap();
        let mut result = Ok(());
        while result.is_ok() && (client.is_handshaking() || server.is_handshaking()) {
            let mut wire = Vec::new();
            client.write_tls(&mut wire).unwrap();
            server.read_tls(&mut wire.as_slice()).unwrap();
            server.process_new_packets().unwrap();
            let mut wire = Vec::new();
            server.write_tls(&mut wire).unwrap();
            client.read_tls(&mut wire.as_slice()).unwrap();
            result = client.process_new_packets().map(drop);
        }
        assert_eq!(result.is_ok(), good, "{result:?}");
    }
}

/// A certificate that is valid from one year to another.
fn certificate(from: i32, until: i32) -> String {
    let mut parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    parameters.not_before = rcgen::date_time_ymd(from, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(until, 1, 1);
    parameters.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
}

#[test]
fn certificates_are_judged() {
    let directory = tempfile::tempdir().unwrap();
    let (one, other) = (path(directory.path(), "one"), path(directory.path(), "other"));
    for out in [&one, &other] {
        assert_eq!(plimsoll(["certs", "--dir", out]).code, Some(0));
    }
    let empty = file(directory.path(), "empty.pem", "");
    let broken = file(
        directory.path(),
        "broken.pem",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    );
    let (crt, key, strange) =
        (format!("{one}/tls.crt"), format!("{one}/tls.key"), format!("{other}/tls.key"));
    let both = file(
        directory.path(),
        "both.pem",
        &(fs::read_to_string(&crt).unwrap() + &fs::read_to_string(&key).unwrap()),
    );
    let expired = file(directory.path(), "expired.pem", &certificate(2001, 2002));
    let early = file(directory.path(), "early.pem", &certificate(9000, 9001));
    let table: [(&str, &[&str], i32, &str); 10] = [
        ("expired", &[&expired], 1, "Expired"),
        ("not valid yet", &[&early], 1, "NotYetValid"),
        ("pair", &[&crt, &key], 0, "CN=plimsoll"),
        ("default names", &[&crt], 0, "localhost, 127.0.0.1, ::1"),
        ("both in one file", &[&both], 0, "CN=plimsoll"),
        ("other key", &[&crt, &strange], 1, "this key belongs to none of the certificates"),
        ("key alone", &[&key], 1, "this key belongs to none"),
        ("empty", &[&empty], 2, "holds neither a certificate nor a private key"),
        ("broken", &[&broken], 2, "cannot be read"),
        ("missing", &["/nonexistent/tls.crt"], 2, "cannot be read"),
    ];
    for (rule, files, code, part) in table {
        let run = plimsoll(["certs", "inspect"].iter().chain(files));
        assert_eq!(run.code, Some(code), "{rule}: {run:?}");
        let text = if code == 2 { &run.err } else { &run.out };
        assert!(text.contains(part), "{rule}: {run:?}");
    }
}

/// Help is wrapped at 100 columns, and a command that is wrapped cannot be copied.
#[test]
fn examples_can_be_copied() {
    for command in
        ["serve", "mutate", "review", "validate", "config", "certs", "manifests", "completions", "man"]
    {
        let run = plimsoll([command, "--help"]);
        let examples = run.out.split("EXAMPLES:\n").nth(1).unwrap_or_else(|| panic!("{command}: {run:?}"));
        let mut goes_on = false;
        for line in examples.lines() {
            assert!(line.len() <= 100, "{command}: {line}");
            let begins = ["  # ", "  plimsoll ", "  curl ", "  source ", "  chmod "]
                .iter()
                .any(|begin| line.starts_with(begin));
            assert!(begins || goes_on, "{command}: the line begins no command: {line:?}");
            goes_on = line.ends_with('\\');
        }
    }
    let help = plimsoll(["serve", "--help"]).out;
    assert!(help.contains(
        "-H 'Content-Type: application/json' \\\n      -d @review.json https://localhost:8443/mutate\n"
    ));
    let words: Vec<_> = help.split_whitespace().collect();
    assert!(words.join(" ").contains("tls.certificate and tls.key of the configuration"), "{help}");
}

#[test]
fn wrong_wishes_for_certificates_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let out = path(directory.path(), "out");
    let occupied = file(directory.path(), "occupied", "");
    let table: [(&str, &[&str], &str); 6] = [
        ("name", &["--dir", &out, "--name", "a_b"], "write a DNS name"),
        ("days", &["--dir", &out, "--days", "0"], "is not in 1..=36500"),
        ("service", &["--dir", &out, "--service", "A"], "lower-case letters"),
        ("namespace alone", &["--dir", &out, "--namespace", "x"], "--service"),
        ("no directory", &["--dir", &occupied], "is no directory"),
        ("no name", &["--dir", &out, "--name", ""], "write a DNS name"),
    ];
    for (rule, arguments, part) in table {
        let run = plimsoll(["certs"].iter().chain(arguments));
        assert_eq!(run.code, Some(2), "{rule}: {run:?}");
        assert!(run.err.contains(part), "{rule}: {run:?}");
        assert!(!Path::new(&out).exists(), "{rule}");
    }
}
