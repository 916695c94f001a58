//! Where certificates come from, and how they are replaced.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use plimsoll::metrics::Metrics;
use plimsoll::server::tls::{Reload, TlsError, wall_clock};
use plimsoll::server::{CertificateSource, CertificateStore, ClientAuth, Shutdown, TlsOptions};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;

use crate::support::{Connection, Server, Setup, client, client_of, client_with, request, test_clock};
use crate::wait::{until, within};

/// A certificate authority of the test.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for `localhost`, valid to the end of `year`, and its key.
    fn issue(&self, year: i32) -> (String, String) {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 12, 31);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }
}

/// A mounted Secret: files are symlinks into `..data`, itself a symlink that is swapped as a whole.
struct Mount {
    directory: TempDir,
    version: std::cell::Cell<u32>,
}

const FILES: [&str; 3] = ["tls.crt", "tls.key", "ca.crt"];

impl Mount {
    fn new(content: [&str; 3]) -> Self {
        let mount = Self { directory: TempDir::new().unwrap(), version: 0.into() };
        mount.publish(content);
        for name in FILES {
            std::os::unix::fs::symlink(format!("..data/{name}"), mount.path(name)).unwrap();
        }
        mount
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Does what the kubelet does when the Secret changes. An empty content means no file.
    fn publish(&self, content: [&str; 3]) {
        self.version.set(self.version.get() + 1);
        let version = format!("..version{}", self.version.get());
        fs::create_dir(self.path(&version)).unwrap();
        for (name, text) in FILES.iter().zip(content) {
            if !text.is_empty() {
                fs::write(self.path(&version).join(name), text).unwrap();
            }
        }
        std::os::unix::fs::symlink(&version, self.path("..data_tmp")).unwrap();
        fs::rename(self.path("..data_tmp"), self.path("..data")).unwrap();
    }

    fn options(&self, client_auth: ClientAuth) -> TlsOptions {
        let client_ca = (client_auth != ClientAuth::None).then(|| self.path("ca.crt"));
        let source = CertificateSource::Files {
            certificate: self.path("tls.crt"),
            key: self.path("tls.key"),
            client_ca,
        };
        TlsOptions { source, client_auth, tls13_only: false, http2: false }
    }

    fn setup(&self, client_auth: ClientAuth) -> Setup {
        Setup { tls: self.options(client_auth), ..Setup::default() }
    }
}

fn open(options: TlsOptions) -> Result<Arc<CertificateStore>, TlsError> {
    CertificateStore::open(options, wall_clock(), &Metrics::new("test"))
}

#[tokio::test]
async fn rotation_by_symlink_swap_changes_what_new_connections_see() {
    let authority = Authority::new();
    let (certificate, key) = authority.issue(2200);
    let mount = Mount::new([&certificate, &key, ""]);
    let server = Server::start(mount.setup(ClientAuth::None)).await;
    let config = client(&authority.pem());
    let mut old = Connection::open(server.address, config.clone()).await.unwrap();
    let mut seen = vec![old.peer_serial()];
    assert!(matches!(server.store.poll_once(), Reload::Unchanged));

    for (year, count) in [(2201, 1), (2202, 2)] {
        let (certificate, key) = authority.issue(year);
        mount.publish([&certificate, &key, ""]);
        assert!(matches!(server.store.poll_once(), Reload::Replaced));
        assert!(matches!(server.store.poll_once(), Reload::Unchanged));
        let mut new = Connection::open(server.address, config.clone()).await.unwrap();
        assert_eq!(new.peer_serial(), server.store.serial());
        assert!(!seen.contains(&new.peer_serial()));
        seen.push(new.peer_serial());
        assert_eq!(new.call("/mutate", "{}").await.status, 200);
        assert_eq!(old.call("/mutate", "{}").await.status, 200, "the open connection goes on");
        assert_eq!(server.metric("plimsoll_tls_reloads_total{result=\"success\"}"), count);
        assert!(server.store.not_after().to_string().starts_with(&format!("{year}-12-31")));
        let not_after = server.store.not_after().as_second();
        assert_eq!(server.metric("plimsoll_tls_certificate_not_after_seconds"), not_after);
        let week = 7 * 24 * 3600;
        assert_eq!(
            server.metric("plimsoll_tls_certificate_renew_seconds"),
            not_after - week,
            "of a year or more"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn what_cannot_be_used_is_refused_and_the_last_good_pair_stays() {
    let authority = Authority::new();
    let (certificate, key) = authority.issue(2200);
    let (other_certificate, other_key) = authority.issue(2201);
    let mount = Mount::new([&certificate, &key, ""]);
    let server = Server::start(mount.setup(ClientAuth::None)).await;
    let config = client(&authority.pem());
    let serial = server.store.serial();
    let half = |text: &str| text[..text.len() / 2].to_owned();
    let not_x509 = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
    let chain = format!("{other_certificate}{not_x509}");
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\naGVsbG8=\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let not_base64 = "-----BEGIN PRIVATE KEY-----\n****\n-----END PRIVATE KEY-----\n";
    let not_a_key = "-----BEGIN PRIVATE KEY-----\naGVsbG8=\n-----END PRIVATE KEY-----\n";
    let huge = "x".repeat(2 << 20);
    let rows: [(&str, &str, &str, &str); 15] = [
        (
            "a new certificate with the old key",
            &other_certificate,
            &key,
            "does not belong to the certificate",
        ),
        (
            "the old certificate with a new key",
            &certificate,
            &other_key,
            "does not belong to the certificate",
        ),
        ("a half-written certificate", &half(&other_certificate), &other_key, "cut off"),
        ("a half-written key", &other_certificate, &half(&other_key), "cut off"),
        ("no certificate file", "", &other_key, "check that the file is mounted"),
        ("no key file", &other_certificate, "", "check that the file is mounted"),
        ("an empty certificate", " ", &other_key, "holds no certificate"),
        ("an empty key", &other_certificate, "\n", "holds no private key"),
        ("garbage for a certificate", "\u{1}\u{2}garbage", &other_key, "holds no certificate"),
        ("a certificate that is none", not_x509, &other_key, "certificate 1: is not X.509"),
        ("a chain with garbage", &chain, &other_key, "certificate 2: is not X.509"),
        ("an encrypted key", &other_certificate, encrypted, "encrypted"),
        ("a key that is not base64", &other_certificate, not_base64, "not base64"),
        ("a key that is none", &other_certificate, not_a_key, "TLS: "),
        ("a huge file", &huge, &other_key, "larger than 1 MiB"),
    ];
    let mut refused = 0;
    for (rule, certificate, key, says) in rows {
        mount.publish([certificate, key, ""]);
        let Reload::Refused(error) = server.store.poll_once() else { panic!("{rule}: not refused") };
        let error = error.to_string();
        assert!(error.contains(says), "{rule}: {error}");
        let path = mount.directory.path().to_str().unwrap();
        assert!(error.contains(path) || says == "TLS: ", "{rule} names the file: {error}");
        refused += 1;
        assert_eq!(server.metric("plimsoll_tls_reloads_total{result=\"refused\"}"), refused, "{rule}");
        assert_eq!(server.store.serial(), serial, "{rule}");
        let mut connection = Connection::open(server.address, config.clone()).await.unwrap();
        assert_eq!(connection.call("/mutate", "{}").await.status, 200, "{rule}");
    }
    mount.publish([&certificate, &key, ""]);
    assert!(matches!(server.store.poll_once(), Reload::Unchanged), "the pair that is served came back");
    mount.publish([&other_certificate, &other_key, ""]);
    assert!(matches!(server.store.poll_once(), Reload::Replaced));
    server.stop().await;
}

#[test]
fn a_truly_empty_file_is_refused() {
    let authority = Authority::new();
    let (certificate, key) = authority.issue(2200);
    let mount = Mount::new([&certificate, &key, ""]);
    let store = open(mount.options(ClientAuth::None)).unwrap();
    fs::write(mount.path("tls.crt"), "").unwrap();
    let Reload::Refused(error) = store.poll_once() else { panic!("not refused") };
    assert!(error.to_string().contains("is empty"), "{error}");
}

#[test]
fn what_is_refused_is_reported_once() {
    let authority = Authority::new();
    let (certificate, key) = authority.issue(2200);
    let mount = Mount::new([&certificate, &key, ""]);
    let store = open(mount.options(ClientAuth::None)).unwrap();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let writer = Arc::clone(&lines);
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::ERROR)
        .with_writer(move || Shared(Arc::clone(&writer)))
        .finish();
    let _logs = tracing::subscriber::set_default(subscriber);
    for (rule, content, reports) in [
        ("bad", ["garbage", &key, ""], 1),
        ("the same once more", ["garbage", &key, ""], 1),
        ("bad in another way", ["other garbage", &key, ""], 2),
        ("no file", ["", &key, ""], 3),
        ("still no file", ["", &key, ""], 3),
        ("good", [&certificate, &key, ""], 3),
        ("bad again", ["garbage", &key, ""], 4),
    ] {
        mount.publish(content);
        store.poll_once();
        store.poll_once();
        let text = String::from_utf8(lines.lock().unwrap().clone()).unwrap();
        assert_eq!(text.matches("new certificate refused").count(), reports, "{rule}: {text}");
        assert!(!text.contains("PRIVATE KEY"), "{rule}: {text}");
    }
}

/// A writer to memory.
struct Shared(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn at_start_there_must_be_a_pair() {
    let authority = Authority::new();
    let mount = Mount::new([&authority.issue(2200).0, &authority.issue(2200).1, ""]);
    assert!(matches!(open(mount.options(ClientAuth::None)), Err(TlsError::Mismatch { .. })));
    let missing = Mount::new(["", "", ""]);
    assert!(matches!(open(missing.options(ClientAuth::None)), Err(TlsError::Read { .. })));
    let nameless = CertificateSource::Ephemeral { names: Vec::new() };
    let options = TlsOptions { source: nameless, ..mount.options(ClientAuth::None) };
    assert!(matches!(open(options), Err(TlsError::Generate(_))));
}

#[test]
fn every_shape_of_key_is_read() {
    let fixture = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls").join(name);
    let rows = [
        ("PKCS#8, RSA", "rsa.crt.pem", "rsa.pkcs8.pem", true),
        ("PKCS#1", "rsa.crt.pem", "rsa.pkcs1.pem", true),
        ("PKCS#8, EC", "ec.crt.pem", "ec.pkcs8.pem", true),
        ("SEC1", "ec.crt.pem", "ec.sec1.pem", true),
        ("another algorithm", "ec.crt.pem", "rsa.pkcs1.pem", false),
        ("another algorithm, the other way", "rsa.crt.pem", "ec.sec1.pem", false),
    ];
    for (rule, certificate, key, good) in rows {
        let source = CertificateSource::Files {
            certificate: fixture(certificate),
            key: fixture(key),
            client_ca: None,
        };
        let options = TlsOptions { source, client_auth: ClientAuth::None, tls13_only: false, http2: false };
        let result = open(options);
        assert_eq!(result.is_ok(), good, "{rule}: {result:?}");
    }
}

#[tokio::test]
async fn a_chain_is_sent_as_it_stands() {
    let root = Authority::new();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, "intermediate");
    let intermediate = CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), &root.0).unwrap();
    let intermediate = Authority(intermediate);
    let (leaf, key) = intermediate.issue(2200);
    let mount = Mount::new([&format!("{leaf}{}", intermediate.pem()), &key, ""]);
    let server = Server::start(mount.setup(ClientAuth::None)).await;
    let mut connection = Connection::open(server.address, client(&root.pem())).await.unwrap();
    assert_eq!(connection.call("/mutate", "{}").await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn expiry_is_by_the_clock_at_the_time_of_asking() {
    let authority = Authority::new();
    let (certificate, key) = authority.issue(2200);
    let mount = Mount::new([&certificate, &key, ""]);
    let (clock, now) = test_clock("2200-12-30T00:00:00Z".parse().unwrap());
    let setup = Setup { clock, ..mount.setup(ClientAuth::None) };
    let server = Server::start(setup).await;
    assert_eq!(server.store.check(), Ok(()));
    *now.lock().unwrap() = "2201-01-01T00:00:00Z".parse().unwrap();
    assert!(server.store.check().unwrap_err().contains("expired at 2200-12-31"));

    let (certificate, key) = authority.issue(2201);
    mount.publish([&certificate, &key, ""]);
    assert!(matches!(server.store.poll_once(), Reload::Replaced));
    assert_eq!(server.store.check(), Ok(()));
    server.stop().await;
}

#[tokio::test]
async fn client_certificates() {
    let (servers, clients, strangers) = (Authority::new(), Authority::new(), Authority::new());
    let (certificate, key) = servers.issue(2200);
    let mount = Mount::new([&certificate, &key, &clients.pem()]);
    let with = |authority: &Authority| {
        let (certificate, key) = authority.issue(2200);
        client_with(&servers.pem(), &certificate, &key)
    };
    let rows = [
        (ClientAuth::None, "nobody", true),
        (ClientAuth::None, "stranger", true),
        (ClientAuth::Optional, "nobody", true),
        (ClientAuth::Optional, "known", true),
        (ClientAuth::Optional, "stranger", false),
        (ClientAuth::Required, "nobody", false),
        (ClientAuth::Required, "known", true),
        (ClientAuth::Required, "stranger", false),
    ];
    for (auth, who, good) in rows {
        let server = Server::start(mount.setup(auth)).await;
        let config = match who {
            "known" => with(&clients),
            "stranger" => with(&strangers),
            _ => client(&servers.pem()),
        };
        assert_eq!(admitted(&server, config).await, good, "{auth:?}, {who}");
        server.stop().await;
    }

    let server = Server::start(mount.setup(ClientAuth::Required)).await;
    assert!(!admitted(&server, with(&strangers)).await);
    mount.publish([&certificate, &key, &strangers.pem()]);
    assert!(matches!(server.store.poll_once(), Reload::Replaced), "the CA is reloaded with the pair");
    assert!(admitted(&server, with(&strangers)).await);
    assert!(!admitted(&server, with(&clients)).await);
    mount.publish([&certificate, &key, "no certificate"]);
    assert!(matches!(server.store.poll_once(), Reload::Refused(_)));
    assert!(admitted(&server, with(&strangers)).await, "the last good CA stays");
    server.stop().await;

    let mut options = mount.options(ClientAuth::Required);
    if let CertificateSource::Files { client_ca, .. } = &mut options.source {
        *client_ca = None;
    }
    assert!(matches!(open(options), Err(TlsError::NoClientCa)));
}

/// Whether a client gets an answer. In TLS 1.3 a client learns only afterwards that it was refused.
async fn admitted(server: &Server, config: rustls::ClientConfig) -> bool {
    let Ok(mut connection) = Connection::open(server.address, config).await else { return false };
    let request = request("/mutate", "{}");
    connection.stream.write_all(request.as_bytes()).await.is_ok()
        && within(connection.try_response()).await.is_some_and(|response| response.status == 200)
}

#[tokio::test]
async fn versions() {
    for (tls13_only, version, good) in [
        (false, &rustls::version::TLS12, true),
        (false, &rustls::version::TLS13, true),
        (true, &rustls::version::TLS12, false),
        (true, &rustls::version::TLS13, true),
    ] {
        let mut setup = Setup::default();
        setup.tls.tls13_only = tls13_only;
        let server = Server::start(setup).await;
        let config = client_of(server.store.ca_pem().unwrap(), version);
        assert_eq!(admitted(&server, config).await, good, "1.3 only: {tls13_only}, {version:?}");
        server.stop().await;
    }
}

#[tokio::test]
async fn an_ephemeral_certificate_is_renewed_by_the_wall_clock() {
    let start = Timestamp::now();
    let (clock, now) = test_clock(start);
    let server = Server::start(Setup { clock, ..Setup::default() }).await;
    let (serial, end) = (server.store.serial(), server.store.not_after());
    let authority = server.store.ca_pem().unwrap().to_owned();
    assert!(matches!(server.store.poll_once(), Reload::Unchanged));
    assert!(server.store.expired(end + SignedDuration::from_secs(1)));
    assert!(!server.store.expired(end));

    // As after a long suspension: the next poll after two thirds of the year renews.
    *now.lock().unwrap() = start + SignedDuration::from_hours(24 * 250);
    assert!(matches!(server.store.poll_once(), Reload::Replaced));
    assert_ne!(server.store.serial(), serial);
    assert_eq!(server.store.not_after(), end + SignedDuration::from_hours(24 * 250));
    assert_eq!(server.store.ca_pem(), Some(authority.as_str()), "the authority stays");
    assert!(matches!(server.store.poll_once(), Reload::Unchanged));
    server.stop().await;
}

#[tokio::test]
async fn polling_goes_on_until_the_end() {
    let authority = Authority::new();
    let (certificate, key) = authority.issue(2200);
    let mount = Mount::new([&certificate, &key, ""]);
    let store = open(mount.options(ClientAuth::None)).unwrap();
    let shutdown = Shutdown::new();
    let watch = tokio::spawn(Arc::clone(&store).watch(Duration::from_millis(5), shutdown.clone()));
    for year in [2201, 2202] {
        let (certificate, key) = authority.issue(year);
        mount.publish([&certificate, &key, ""]);
        until("taken up", || store.not_after().to_string().starts_with(&year.to_string())).await;
    }
    shutdown.finish();
    within(watch).await.unwrap();
}
