//! What a deployment grants: values of the environment, and HTTP requests to named hosts (RELIABILITY: P18).

use std::time::{Duration, Instant};

use granary_tests::{CliOutput, Cluster, Silo, Web, guest};
use serde_json::{Value, json};

fn deploy(silo: &Silo, flags: &[&str]) -> CliOutput {
    let guest = guest("fetcher");
    silo.cli(&[&["deploy", guest.to_str().unwrap()], flags].concat())
}

fn ask(silo: &Silo, method: &str, arguments: &Value) -> Value {
    silo.gateway().call("fetcher/f", method, arguments).unwrap().ok()
}

fn request(scheme: &str, authority: &str, path: &str, body: &str) -> Value {
    let method = if body.is_empty() { "GET" } else { "POST" };
    json!([{ "method": method, "scheme": scheme, "authority": authority, "path": path, "body": body, "fields": [["x-own", "1"]] }])
}

fn fetch(silo: &Silo, authority: &str, path: &str) -> Value {
    ask(silo, "fetch", &request("http", authority, path, ""))
}

/// The request must fail with this code.
#[track_caller]
fn fails(answer: &Value, code: &str) {
    assert!(answer["err"].as_str().is_some_and(|error| error.contains(code)), "{code}: {answer}");
}

#[test]
fn without_a_grant_a_component_that_sends_requests_is_refused_by_name() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    let refused = deploy(&silo, &[]);
    refused.fails(65, &["wasi:http/outgoing-handler@0.2", "wasi:http/types@0.2", "--allow-http HOST"]);
    deploy(&silo, &["--env", "A=1"]).fails(65, &["--allow-http HOST"]);
    assert_eq!(silo.admin().get("/v1/deployments").unwrap().ok(), json!([]));
    deploy(&silo, &["--allow-http", "http://example.org/"]).fails(2, &["HOST:PORT"]);
    deploy(&silo, &["--allow-http", "x", "--env", "1A=x"]).fails(65, &["environment name"]);
    let shown = granary_tests::cli("127.0.0.1:1", &["inspect", guest("fetcher").to_str().unwrap()]);
    assert!(shown.ok().contains("--allow-http HOST"), "{shown:?}");
}

#[test]
fn a_grain_sends_requests_to_the_granted_address() {
    let (cluster, web) = (Cluster::new(), Web::start());
    let silo = cluster.start("silo-1");
    let address = web.address.to_string();
    let _ = deploy(&silo, &["--allow-http", &address]).ok();
    let echo = ask(&silo, "fetch", &request("http", &address, "/echo", "grüße"));
    assert_eq!((&echo["ok"]["status"], &echo["ok"]["body"]), (&json!(200), &json!("grüße")), "{echo}");
    let head = fetch(&silo, &address, "/head")["ok"]["body"].as_str().unwrap().to_ascii_lowercase();
    for line in [&format!("host: {address}"), "x-own: 1", "connection: close"] {
        assert!(head.lines().any(|it| it == line), "{line} is missing in {head}");
    }
    // Redirects are not followed.
    let before = web.connections();
    let redirect = fetch(&silo, &address, "/redirect");
    assert_eq!(redirect["ok"]["status"], 302, "{redirect}");
    assert_eq!(redirect["ok"]["fields"][0], json!(["location", "/echo"]));
    assert_eq!(web.connections(), before + 1);
}

#[test]
fn a_grain_reaches_no_host_that_is_not_granted() {
    let (cluster, web, other) = (Cluster::new(), Web::start(), Web::start());
    let silo = cluster.start("silo-1");
    let port = web.address.port();
    let (address, name) = (web.address.to_string(), format!("localhost:{port}"));
    let _ = deploy(&silo, &["--allow-http", &name]).ok();
    // A granted name at a loopback address.
    fails(&fetch(&silo, &name, "/echo"), "DestinationIpProhibited");
    let log = silo.cli(&["logs", "fetcher/f"]);
    assert!(log.ok().contains("a loopback address") && log.ok().contains("--allow-http-private"), "{log:?}");
    // Other hosts, the same one by other names, and what resolvers take for it.
    for authority in [
        &other.address.to_string(),
        &address,
        &silo.admin,
        &silo.gateway,
        &format!("[::ffff:127.0.0.1]:{port}"),
        "localhost",
        "example.org",
        &format!("localhost.:{port}"),
    ] {
        let answer = fetch(&silo, authority, "/echo");
        assert!(
            answer["err"]
                .as_str()
                .is_some_and(|it| it.contains("HttpRequestDenied") || it.contains("UriInvalid")),
            "{authority}: {answer}"
        );
    }
    for authority in [&format!("127.1:{port}"), &format!("2130706433:{port}"), &format!("x@localhost:{port}")]
    {
        fails(&fetch(&silo, authority, "/echo"), "HttpRequestUriInvalid");
    }
    assert_eq!((web.connections(), other.connections()), (0, 0));
    let metrics = silo.admin().text("/metrics").unwrap();
    assert!(metrics.contains("granary_outgoing_http_denied_total"), "{metrics}");
    // The deployment may say that it wants this.
    let _ = deploy(&silo, &["--allow-http", &name, "--allow-http-private"]).ok();
    let answer = silo.gateway().call("fetcher/new", "fetch", &request("http", &name, "/echo", "x"));
    assert_eq!(answer.unwrap().ok()["ok"]["body"], "x");
    assert_eq!(web.connections(), 1);
}

#[test]
fn what_is_not_plain_http_is_refused_as_an_error() {
    let (cluster, web) = (Cluster::new(), Web::start());
    let silo = cluster.start("silo-1");
    let address = web.address.to_string();
    let _ = deploy(&silo, &["--allow-http", &address]).ok();
    fails(&ask(&silo, "fetch", &request("https", &address, "/echo", "")), "--outgoing-ca-file");
    fails(&ask(&silo, "fetch", &request("gopher", &address, "/echo", "")), "HttpRequestUriInvalid");
    let mut connect = request("http", &address, "/echo", "");
    connect[0]["method"] = json!("CONNECT");
    fails(&ask(&silo, "fetch", &connect), "the method is refused");
    let mut smuggled = request("http", &address, "/echo", "");
    smuggled[0]["fields"] = json!([["host", "other"]]);
    fails(&ask(&silo, "fetch", &smuggled), "Forbidden");
    fails(&fetch(&silo, &address, "/a b"), "the path is refused");
    assert_eq!(web.connections(), 0);
}

#[test]
fn requests_are_bounded_in_number_and_size() {
    let (cluster, web) = (Cluster::new(), Web::start());
    let silo = cluster.start("silo-1");
    let address = web.address.to_string();
    let _ = deploy(&silo, &["--allow-http", &address]).ok();
    let paths = vec!["/gate/16"; 20];
    let answers = ask(&silo, "fetch-all", &json!([address, paths]));
    let (ok, refused) = answers.as_array().unwrap().split_at(16);
    assert!(ok.iter().all(|answer| answer["ok"] == 200), "{answers}");
    refused.iter().for_each(|answer| fails(answer, "ConnectionLimitReached"));
    assert_eq!(web.connections(), 16);
    let mib = 1_u64 << 20;
    let sent = ask(&silo, "upload", &json!([address, "/head", mib]));
    let sent = sent["ok"].as_str().unwrap().to_ascii_lowercase();
    assert!(
        sent.contains(&format!("content-length: {mib}")),
        "a body that is known is sent with its length: {sent}"
    );
    fails(&ask(&silo, "upload", &json!([address, "/head", 5 * mib])), "HttpRequestBodySize");
    assert_eq!(ask(&silo, "download", &json!([address, format!("/bytes/{mib}")])), json!({ "ok": mib }));
    let large = format!("/bytes/{}", 17 * mib);
    fails(&ask(&silo, "download", &json!([address, large])), "HttpResponseBodySize");
}

#[test]
fn a_grain_that_awaits_an_answer_holds_no_thread() {
    let (cluster, web) = (Cluster::new(), Web::start());
    let silo = cluster.start("silo-1");
    silo.deploy(&["counter"]);
    let address = web.address.to_string();
    let _ = deploy(&silo, &["--allow-http", &address]).ok();
    // More than there are worker threads: the gate opens only when all of them are under way at once.
    let grains = 16 * std::thread::available_parallelism().unwrap().get();
    let answers = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..grains - 1)
            .map(|n| {
                let (silo, address) = (&silo, &address);
                scope.spawn(move || {
                    let arguments = request("http", address, &format!("/gate/{grains}"), "");
                    silo.gateway().call(&format!("fetcher/{n}"), "fetch", &arguments).unwrap().ok()
                })
            })
            .collect();
        granary_tests::wait_until(Duration::from_secs(60), "all wait", || {
            let waiting = web.connections();
            if waiting == grains - 1 { Ok(()) } else { Err(waiting) }
        });
        assert_eq!(silo.cli(&["call", "counter/a", "increment", "2"]).ok(), "2");
        let last = fetch(&silo, &address, &format!("/gate/{grains}"));
        let mut answers: Vec<Value> = calls.into_iter().map(|call| call.join().unwrap()).collect();
        answers.push(last);
        answers
    });
    assert!(answers.iter().all(|answer| answer["ok"]["body"] == "open"), "{answers:?}");
}

#[test]
fn the_wait_for_an_answer_ends_with_the_deadline_of_the_call() {
    let (cluster, web) = (Cluster::new(), Web::start());
    let silo = cluster.start("silo-1");
    let address = web.address.to_string();
    let _ = deploy(&silo, &["--allow-http", &address]).ok();
    let before = fetch(&silo, &address, "/echo");
    assert_eq!(before["ok"]["status"], 200);
    let activation = silo.describe("fetcher/f")["activation"].clone();
    let started = Instant::now();
    let arguments = request("http", &address, "/never", "").to_string();
    let late = silo.gateway().post_within("/v1/grains/fetcher/f/fetch", arguments.as_bytes(), 500).unwrap();
    // Whichever comes first: both end at the same time.
    let told = late.body["err"].as_str().is_some_and(|error| error.contains("HttpResponseTimeout"));
    assert!(told || late.code() == "timed-out", "{late:?}");
    // The turn got its error at the deadline, so that the next one runs at once, in the same activation.
    assert_eq!(fetch(&silo, &address, "/echo")["ok"]["status"], 200);
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert_eq!(silo.describe("fetcher/f")["activation"], activation);
}

#[test]
fn a_grain_sees_the_granted_environment_and_nothing_else() {
    let (cluster, web) = (Cluster::new(), Web::start());
    let first = cluster.start("silo-1");
    let second = cluster.start("silo-2");
    let address = web.address.to_string();
    let grant = ["--env", "GREETING=good = day", "--env", "EMPTY=", "--allow-http", &address];
    let _ = deploy(&first, &grant).ok();
    let expected = json!([["EMPTY", ""], ["GREETING", "good = day"]]);
    for (silo, grain) in [(&first, "fetcher/a"), (&second, "fetcher/b"), (&second, "fetcher/c")] {
        assert_eq!(silo.gateway().call(grain, "environment", &json!([])).unwrap().ok(), expected);
    }
    // Names are shown, values are not.
    let grants = json!({ "env": ["EMPTY", "GREETING"], "http": [address], "http_private": false });
    let deployments = first.admin().get("/v1/deployments").unwrap().ok();
    assert_eq!(deployments[0]["grants"], grants);
    assert_eq!(first.describe("fetcher/a")["grants"], grants);
    let table = first.cli(&["list", "deployments"]);
    assert!(
        table.ok().contains("env GREETING") && table.ok().contains(&format!("http {address}")),
        "{table:?}"
    );
    for silo in [&first, &second] {
        let shown = [silo.log(), silo.admin().get("/v1/manifest").unwrap().body.to_string()].concat();
        assert!(!shown.contains("good = day"), "{shown}");
    }
    // Unchanged, then changed: new activations get the new grants, live ones keep theirs.
    assert!(deploy(&second, &grant).ok().contains("nothing changed"));
    let _ = deploy(&second, &["--env", "GREETING=hi", "--allow-http", &address]).ok();
    let environment =
        |silo: &Silo, grain: &str| silo.gateway().call(grain, "environment", &json!([])).unwrap().ok();
    for (silo, grain) in [(&first, "fetcher/n1"), (&second, "fetcher/n2"), (&first, "fetcher/n3")] {
        assert_eq!(environment(silo, grain), json!([["GREETING", "hi"]]));
    }
    assert_eq!(environment(&first, "fetcher/a"), expected);
}

/// A silo with HTTPS, which is a server like others, with a certificate for `address` of the CA in `dir`.
fn https_server(cluster: &Cluster, dir: &str, name: &str, address: &str) -> Silo {
    let of = format!("{name}={address}");
    let _ = granary_tests::cli("127.0.0.1:1", &["tls", "init", dir, "--silo", &of]).ok();
    let (cert, key) = (format!("{dir}/{name}.pem"), format!("{dir}/{name}-key.pem"));
    cluster.start_with("server", &["--http-tls-cert", &cert, "--http-tls-key", &key])
}

#[test]
fn a_grain_speaks_https_with_hosts_whose_certificate_fits_and_is_trusted() {
    let clusters = [Cluster::new(), Cluster::new(), Cluster::new()];
    let dir = |n: usize| clusters[n].data().join("tls").to_str().unwrap().to_owned();
    let server = https_server(&clusters[0], &dir(0), "silo-1", "127.0.0.1");
    let stranger = https_server(&clusters[1], &dir(1), "silo-1", "127.0.0.1");
    let silo = clusters[2].start_with("silo-1", &["--outgoing-ca-file", &format!("{}/ca.pem", dir(0))]);
    let _ = deploy(&silo, &["--allow-http", &server.admin, "--allow-http", &stranger.admin]).ok();
    let answer = ask(&silo, "fetch", &request("https", &server.admin, "/healthz", ""));
    assert_eq!((&answer["ok"]["status"], &answer["ok"]["body"]), (&json!(200), &json!("ok\n")), "{answer}");
    let answer = ask(&silo, "fetch", &request("https", &stranger.admin, "/healthz", ""));
    fails(&answer, "TlsCertificateError");
    // The right CA, and a certificate for another address.
    let cluster = Cluster::new();
    let other = https_server(&cluster, &dir(0), "silo-2", "192.0.2.1");
    let _ = deploy(&silo, &["--allow-http", &other.admin]).ok();
    let arguments = request("https", &other.admin, "/healthz", "");
    fails(&silo.gateway().call("fetcher/new", "fetch", &arguments).unwrap().ok(), "TlsCertificateError");
}

#[test]
fn a_ca_file_that_cannot_be_used_stops_the_start() {
    let cluster = Cluster::new();
    let file = cluster.data().join("ca.pem");
    std::fs::write(&file, "no certificate").unwrap();
    let (data, file) = (cluster.data().to_str().unwrap(), file.to_str().unwrap());
    let flags = ["silo", "--data", data, "--admin", "127.0.0.1:0", "--gateway", "127.0.0.1:0", "--listen"];
    let flags = [&flags[..], &["127.0.0.1:0", "--outgoing-ca-file", file]].concat();
    granary_tests::cli("127.0.0.1:1", &flags).fails(64, &[file]);
}
