use std::time::Duration;

use tollgate_testbed::{Certificates, RedisServer, RedisSetup};

use super::helpers::{LONG_TIMEOUT, failure, increment, options};
use crate::resp_value::Value;
use crate::transport::{Cause, Executed};
use crate::wire::client::RedisClient;
use crate::wire::options::{OptionsError, TlsOptions};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_servers_with_a_trusted_certificate_and_name_are_connected_to() {
    let (own, other) = (Certificates::new().unwrap(), Certificates::new().unwrap());
    let server = RedisServer::start_with(RedisSetup { certificates: Some(&own), ..RedisSetup::default() }).unwrap();
    let start = |authority: &Certificates, server_name: Option<&str>| {
        let mut options = options(server.tls_address().unwrap());
        options.tls = Some(TlsOptions {
            authority: Some(authority.authority_file()),
            server_name: server_name.map(str::to_owned),
        });
        RedisClient::start(&options).unwrap()
    };
    let client = start(&own, None);
    for expected in 1..=1000 {
        assert_eq!(client.call_within(increment("n"), LONG_TIMEOUT).await, Ok(Value::Integer(expected)));
    }
    let named = start(&own, Some("localhost"));
    assert_eq!(named.call_within(increment("n"), LONG_TIMEOUT).await, Ok(Value::Integer(1001)));
    for refused in [start(&other, None), start(&own, Some("example.org"))] {
        for _ in 0..3 {
            let result = refused.call_within(increment("n"), LONG_TIMEOUT).await;
            assert_eq!(result, failure(Cause::Connection, Executed::No));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    assert_eq!(client.call_within(increment("n"), LONG_TIMEOUT).await, Ok(Value::Integer(1002)));
}

#[tokio::test]
async fn unreadable_ca_file_and_invalid_server_name_are_option_errors() {
    let mut options = options(([127, 0, 0, 1], 1).into());
    options.tls = Some(TlsOptions { authority: Some("/nowhere.pem".into()), server_name: None });
    let error = RedisClient::start(&options).err().unwrap();
    assert!(matches!(&error, OptionsError::Authority(reason) if reason.starts_with("/nowhere.pem: ")), "{error}");
    options.tls = Some(TlsOptions { authority: None, server_name: Some("not a name".to_owned()) });
    assert_eq!(RedisClient::start(&options).err(), Some(OptionsError::ServerName("not a name".to_owned())));
}
