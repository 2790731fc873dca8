//! Tests of the properties of the servers that other tests rely on.
// They print measurements; `--nocapture` shows them.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tollgate_testbed::{
    Binary, Certificates, Fault, FaultProxy, RedisCluster, RedisServer, RedisSetup, Reply, SentinelTrio, ask,
};

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

#[test]
fn killed_server_restarts_empty_on_the_same_port() {
    let mut server = RedisServer::start(&[]).unwrap();
    let address = server.address();
    server.command(&["SET", "a", "1"]).unwrap();
    server.kill().unwrap();
    assert!(server.command(&["PING"]).is_err());
    server.restart().unwrap();
    assert_eq!(server.address(), address);
    assert_eq!(server.command(&["GET", "a"]).unwrap(), Reply::Nil);
}

#[test]
fn paused_server_sends_no_reply_until_it_resumes() {
    let server = RedisServer::start(&[]).unwrap();
    server.pause().unwrap();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    stream.write_all(PING).unwrap();
    assert_eq!(stream.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
    server.resume().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 7);
}

#[test]
fn server_with_a_password_rejects_commands_without_it() {
    let setup = RedisSetup { password: Some("geheim"), ..RedisSetup::default() };
    let server = RedisServer::start_with(setup).unwrap();
    assert_eq!(server.command(&["PING"]).unwrap(), Reply::Text("PONG".to_owned()));
    assert!(
        matches!(ask(server.address(), None, &["PING"]).unwrap(), Reply::Error(error) if error.starts_with("NOAUTH"))
    );
}

#[test]
fn server_with_certificates_also_listens_for_tls() {
    let certificates = Certificates::new().unwrap();
    let setup = RedisSetup { certificates: Some(&certificates), ..RedisSetup::default() };
    let server = RedisServer::start_with(setup).unwrap();
    TcpStream::connect(server.tls_address().unwrap()).unwrap();
}

#[test]
fn valkey_is_started_if_installed() {
    if Binary::Valkey.program().is_none() {
        return;
    }
    let server = RedisServer::start_with(RedisSetup { binary: Binary::Valkey, ..RedisSetup::default() }).unwrap();
    let Reply::Text(info) = server.command(&["INFO", "server"]).unwrap() else { panic!("no text") };
    assert!(info.contains("server_name:valkey"), "{info}");
}

#[test]
fn environment_selects_the_default_program() {
    let server = RedisServer::start(&[]).unwrap();
    let Reply::Text(info) = server.command(&["INFO", "server"]).unwrap() else { panic!("no text") };
    let wanted = std::env::var("TOLLGATE_TEST_SERVER").is_ok_and(|name| name == "valkey");
    assert_eq!(info.contains("server_name:valkey"), wanted, "{info}");
}

#[test]
fn cluster_migrates_slots_and_replaces_dead_primaries() {
    let begun = Instant::now();
    let mut cluster = RedisCluster::start().unwrap();
    println!("a cluster starts in {:?}", begun.elapsed());
    let (slot, from) = (12_182, cluster.owner(12_182).unwrap()); // The slot of "foo".
    assert_eq!(cluster.nodes()[from].command(&["SET", "foo", "1"]).unwrap(), Reply::Text("OK".to_owned()));
    let to = cluster.owner(0).unwrap();
    assert_ne!(from, to);
    cluster.migrate(slot, to).unwrap();
    assert_eq!(cluster.owner(slot).unwrap(), to);
    assert_eq!(cluster.nodes()[to].command(&["GET", "foo"]).unwrap(), Reply::Text("1".to_owned()));

    let killed = cluster.kill_owner(0).unwrap();
    let begun = Instant::now();
    assert_ne!(cluster.owner(0).unwrap(), killed);
    println!("a dead primary is replaced in {:?}", begun.elapsed());
}

#[test]
fn sentinels_replace_a_dead_primary() {
    let mut trio = SentinelTrio::start().unwrap();
    let old = trio.servers()[0].address().port().to_string();
    trio.servers()[0].kill().unwrap();
    let begun = Instant::now();
    loop {
        let command = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SentinelTrio::PRIMARY];
        let Reply::Array(address) = trio.sentinels()[0].command(&command).unwrap() else { panic!("no address") };
        if address[1].text().unwrap() != old {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{}", trio.sentinels()[0].log());
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("sentinels replace a dead primary in {:?}", begun.elapsed());
}

#[test]
fn proxy_injects_each_fault() {
    let server = RedisServer::start(&[]).unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let connect = || {
        let stream = TcpStream::connect(proxy.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        stream
    };
    let ping = |stream: &mut TcpStream| {
        stream.write_all(PING).and_then(|()| stream.read(&mut [0; 8])).map_err(|error| error.kind())
    };

    let mut stream = connect();
    assert_eq!(ping(&mut stream), Ok(7));

    proxy.set(Fault::Delay(Duration::from_millis(30)));
    let begun = Instant::now();
    assert_eq!(ping(&mut stream), Ok(7));
    assert!(begun.elapsed() >= Duration::from_millis(60));

    proxy.set(Fault::Refuse);
    assert_eq!(ping(&mut stream), Ok(7));
    let begun = Instant::now();
    while TcpStream::connect(proxy.address()).is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(10));
    }

    proxy.set(Fault::BlackHole);
    assert_eq!(ping(&mut stream), Err(ErrorKind::WouldBlock));

    proxy.set(Fault::Pass);
    let mut stream = connect();
    assert_eq!(ping(&mut stream), Ok(7));
    proxy.set(Fault::HalfClose);
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);

    proxy.set(Fault::Pass);
    let mut stream = connect();
    assert_eq!(ping(&mut stream), Ok(7));
    proxy.set(Fault::Reset);
    assert_eq!(stream.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);

    proxy.set(Fault::Pass);
    let mut stream = connect();
    proxy.set(Fault::DropAfterSend);
    stream.write_all(b"*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n").unwrap();
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
    assert_eq!(server.command(&["GET", "n"]).unwrap(), Reply::Text("1".to_owned()));
}
