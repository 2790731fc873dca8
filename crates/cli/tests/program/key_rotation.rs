//! Signing keys that change while the service runs.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tollgate::policy::HmacKey;

use crate::client::{Connection, request};
use crate::reload::Directory;
use crate::running::Running;

const OLD: &[u8] = b"the old secret, thirty-two bytes!";
const NEW: &[u8] = b"the new secret, thirty-two bytes!";

fn policy(jwt: &str) -> String {
    format!(
        "version: 1\njwt: {jwt}\nidentity:\n  user: {{ jwt: sub, on_invalid: absent }}\nrules:\n  - {{ name: per-user, key: user, limit: \
         1000000/h }}\n  - {{ name: per-ip, key: client_ip, limit: 1000000/h }}\n"
    )
}

fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut encoded = String::new();
    for chunk in bytes.chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, at| bits << 8 | u32::from(chunk.get(at).copied().unwrap_or(0)));
        (0..=chunk.len()).for_each(|at| encoded.push(char::from(DIGITS[(bits >> (18 - 6 * at) & 63) as usize])));
    }
    encoded
}

fn token(kid: &str, secret: &[u8]) -> String {
    let head = base64url(format!(r#"{{"alg":"HS256","kid":"{kid}"}}"#).as_bytes());
    let signed = format!("{head}.{}", base64url(br#"{"sub":"alice"}"#));
    let signature = base64url(&HmacKey::new(secret).code(signed.as_bytes()));
    format!("{signed}.{signature}")
}

fn set_of(keys: &[(&str, &[u8])]) -> String {
    let key = |(kid, secret): &(&str, &[u8])| {
        format!(r#"{{"kty":"oct","alg":"HS256","kid":"{kid}","k":"{}"}}"#, base64url(secret))
    };
    format!(r#"{{"keys":[{}]}}"#, keys.iter().map(key).collect::<Vec<_>>().join(","))
}

fn has_user(connection: &mut Connection, token: &str) -> bool {
    let body = format!(r#"{{"ip":"203.0.113.9","headers":{{"authorization":"Bearer {token}"}}}}"#);
    connection.request("POST", "/v1/check", &body).body.contains(r#""rule":"per-user""#)
}

/// Sends checks with a token until stopped. Returns the number of requests, and of those without a user.
fn send_until_stopped(http: SocketAddr, token: &str, stop: &AtomicBool) -> (u64, u64) {
    let mut connection = Connection::open(http);
    let (mut sent, mut without) = (0, 0);
    while !stop.load(Relaxed) || sent == 0 {
        sent += 1;
        without += u64::from(!has_user(&mut connection, token));
    }
    (sent, without)
}

#[test]
fn rotation_of_a_key_set_loses_no_identity() {
    let directory = Directory::new("jwks");
    directory.write("keys.json", &set_of(&[("old", OLD)]));
    let file = directory.write("policy.yaml", &policy("{ jwks_file: keys.json }"));
    let mut tollgate = Running::serve_with(&["--grpc", "off", "--resp", "off", &file]);
    let (http, admin) = (tollgate.http, tollgate.admin);
    let (old, new) = (token("old", OLD), token("new", NEW));
    let reloaded = format!("tollgate: {file} reloaded: changed: jwt");
    let [stop_old, stop_new] = [AtomicBool::new(false), AtomicBool::new(false)];
    assert!(!has_user(&mut Connection::open(http), &new));
    std::thread::scope(|scope| {
        let with_old = scope.spawn(|| send_until_stopped(http, &old, &stop_old));
        // The change is detected without a signal.
        directory.write("keys.json", &set_of(&[("old", OLD), ("new", NEW)]));
        assert_eq!(tollgate.line(), reloaded);
        let with_new = scope.spawn(|| send_until_stopped(http, &new, &stop_new));
        // An incomplete file changes nothing, and is logged and counted.
        directory.write("keys.json", "{\"keys\":[{\"kty\":\"oct\"");
        let said = tollgate.line();
        assert!(said.contains("not reloaded, the previous policy stays active"), "{said}");
        while !tollgate.line().contains("hint:") {}
        let metrics = request(admin, "GET", "/metrics", "").body;
        assert!(metrics.contains("\ntollgate_config_last_reload_successful 0\n"), "{metrics}");
        stop_old.store(true, Relaxed);
        let (sent, without) = with_old.join().unwrap();
        assert!(sent > 0 && without == 0, "{without} of {sent} had no user");
        // The admin API reloads it, too.
        directory.write("keys.json", &set_of(&[("new", NEW)]));
        assert_eq!(request(admin, "POST", "/api/reload", "").status, 200);
        assert!(!has_user(&mut Connection::open(http), &old));
        stop_new.store(true, Relaxed);
        let (sent, without) = with_new.join().unwrap();
        assert!(sent > 0 && without == 0, "{without} of {sent} had no user");
    });
}

#[test]
fn keys_are_selected_by_kid_and_a_changed_key_file_is_reloaded() {
    let directory = Directory::new("kids");
    directory.write("one.key", str::from_utf8(OLD).unwrap());
    directory.write("two.key", "another secret of thirty-two bytes");
    let keys = "{ keys: [ { kid: old, algorithm: HS256, key_file: one.key }, { kid: new, algorithm: HS256, key_file: \
                two.key } ] }";
    let file = directory.write("policy.yaml", &policy(keys));
    let mut tollgate = Running::serve_with(&["--grpc", "off", "--resp", "off", &file]);
    let mut connection = Connection::open(tollgate.http);
    let (old, new) = (token("old", OLD), token("new", NEW));
    assert_eq!((has_user(&mut connection, &old), has_user(&mut connection, &new)), (true, false));
    directory.write("two.key", str::from_utf8(NEW).unwrap());
    assert_eq!(tollgate.line(), format!("tollgate: {file} reloaded: changed: jwt"));
    assert_eq!((has_user(&mut connection, &old), has_user(&mut connection, &new)), (true, true));
}
