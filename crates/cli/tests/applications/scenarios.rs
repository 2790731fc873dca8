//! Scenarios that are tests of every application.

use crate::application::{Application, Framework, Outage};
use crate::client::GatewayResponse;
use crate::service::Service;

pub(crate) fn limited_by_address_path_and_header(framework: &Framework) {
    let service = Service::start();
    let application = Application::start(framework, &service, Outage::Refuses);
    let client = application.client(2);
    let first = client.get("/things?page=2");
    assert_eq!((first.status, first.body.contains("world")), (200, true), "{first:?}");
    assert_eq!(first.field("ratelimit"), Some(r#""things";r=4"#), "{first:?}");
    assert_eq!((first.field("x-ratelimit-limit"), first.field("x-ratelimit-remaining")), (Some("5"), Some("4")));
    let statuses: Vec<u16> = (0..5).map(|_| client.get("/things").status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 429]);
    let refused = client.get("/things");
    assert_eq!((refused.status, refused.body.contains("world")), (429, false), "{refused:?}");
    assert_eq!(refused.field("ratelimit"), Some(r#""things";r=0"#), "{refused:?}");
    // An hour for five requests, rounded up.
    let wait: u32 = refused.field("retry-after").unwrap().parse().unwrap();
    assert!((600..=720).contains(&wait), "{wait}");
    assert_eq!([client.get("/other").status, application.client(3).get("/things").status], [200, 200]);
    assert_eq!(application.client(7).get("/").status, 403);
    let login = || client.post("/login", &[], "a body").status;
    assert_eq!([login(), login(), login()], [200, 200, 429]);
    let key = |value| client.send("GET", "/", &[("X-API-Key", value)], "").unwrap().status;
    assert_eq!([key("one"), key("one"), key("two")], [200, 429, 200]);
    let queued = [(); 4].map(|()| application.client(4).get("/queue").status);
    assert_eq!(queued, [200; 4]);
}

pub(crate) fn connections_to_tollgate_are_kept(framework: &Framework) {
    let service = Service::start();
    let application = Application::start(framework, &service, Outage::Refuses);
    assert_eq!(application.client(2).get("/").status, 200);
    let before = service.connections();
    (0..20).for_each(|_| assert_eq!(application.client(2).get("/").status, 200));
    // The second one asks for the number. Another may replace an idle connection.
    assert!(service.connections() <= before + 2, "a connection for every request");
}

pub(crate) fn passes_or_refuses_without_tollgate(framework: &Framework) {
    for (outage, status) in [(Outage::Refuses, 503), (Outage::Allows, 200)] {
        let mut service = Service::start();
        // With the timeout of the example.
        let application = Application::start_with(framework, &service, outage, &[]);
        let get = || application.client(2).get("/");
        // A machine under load may exceed the timeout.
        assert!((0..100).any(|_| get().status == 200));
        service.pause();
        let silent = get();
        service.resume();
        assert_eq!(silent.status, status, "{silent:?}");
        service.process.kill().unwrap();
        let gone = get();
        assert_eq!((gone.status, gone.body.contains("world")), (status, status == 200), "{gone:?}");
    }
}

/// What tollgate cannot check is refused, also if the application allows requests during an outage.
pub(crate) fn excessive_header_fields_are_refused(framework: &Framework) {
    let service = Service::start();
    let application = Application::start(framework, &service, Outage::Allows);
    let names: Vec<String> = (0..300).map(|field| format!("x-{field}")).collect();
    let fields: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1")).collect();
    let response: GatewayResponse = application.client(2).send("GET", "/", &fields, "").unwrap();
    assert!((400..500).contains(&response.status), "{response:?}");
}
