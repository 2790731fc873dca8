use std::time::Duration;

use tollgate_testbed::{Certificates, RedisServer, RedisSetup};

use super::helpers::{PLENTY, increment, options, trouble};
use crate::resp_value::Value;
use crate::transport::{Cause, Executed};
use crate::wire::client::Client;
use crate::wire::options::{OptionsError, TlsOptions};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_server_that_an_authority_vouches_for_is_spoken_to() {
    let (own, other) = (Certificates::new().unwrap(), Certificates::new().unwrap());
    let server = RedisServer::start_with(RedisSetup { certificates: Some(&own), ..RedisSetup::default() }).unwrap();
    let start = |authority: &Certificates, server_name: Option<&str>| {
        let mut options = options(server.tls_address().unwrap());
        options.tls = Some(TlsOptions {
            authority: Some(authority.authority_file()),
            server_name: server_name.map(str::to_owned),
        });
        Client::start(&options).unwrap()
    };
    let client = start(&own, None);
    for expected in 1..=1000 {
        assert_eq!(client.wait(increment("n"), PLENTY).await, Ok(Value::Integer(expected)));
    }
    let named = start(&own, Some("localhost"));
    assert_eq!(named.wait(increment("n"), PLENTY).await, Ok(Value::Integer(1001)));
    for refused in [start(&other, None), start(&own, Some("example.org"))] {
        for _ in 0..3 {
            let answer = refused.wait(increment("n"), PLENTY).await;
            assert_eq!(answer, trouble(Cause::Connection, Executed::No));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    assert_eq!(client.wait(increment("n"), PLENTY).await, Ok(Value::Integer(1002)));
}

#[tokio::test]
async fn an_authority_that_cannot_be_read_is_said() {
    let mut options = options(([127, 0, 0, 1], 1).into());
    options.tls = Some(TlsOptions { authority: Some("/nowhere.pem".into()), server_name: None });
    let error = Client::start(&options).err().unwrap();
    assert!(matches!(&error, OptionsError::Authority(why) if why.starts_with("/nowhere.pem: ")), "{error}");
    options.tls = Some(TlsOptions { authority: None, server_name: Some("not a name".to_owned()) });
    assert_eq!(Client::start(&options).err(), Some(OptionsError::ServerName("not a name".to_owned())));
}
