//! The servers that this program can run. Each has one thread, like the service with `--threads 1`, prints its
//! addresses on stdout, and never ends.

mod grpc_floor;
mod http_floor;
mod resp_floor;
mod tollgate;

use std::net::SocketAddr;

use tokio::net::TcpListener;

/// Runs the server of that name.
pub(crate) fn run(name: &str, entries: Option<&str>) {
    // As in the program.
    let runtime = tokio::runtime::Builder::new_current_thread().event_interval(16).enable_all().build().unwrap();
    runtime.block_on(async {
        match name {
            "resp-floor" => resp_floor::serve(listen("resp").await).await,
            "http-floor" => http_floor::serve(listen("http").await).await,
            "grpc-floor" => grpc_floor::serve(listen("grpc").await).await,
            "tollgate" => tollgate::serve(entries).await,
            "tollgate-seen" => tollgate::serve_three_rules(true).await,
            "tollgate-page" => tollgate::serve_with_admin().await,
            "tollgate-blind" => tollgate::serve_three_rules(false).await,
            other => panic!("there is no server {other}"),
        }
    });
}

/// Opens the one listener of a floor.
async fn listen(name: &str) -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    print_listeners([(name, listener.local_addr().unwrap())]);
    listener
}

/// Prints one line for each listener, and an empty line at the end.
fn print_listeners<'a>(listeners: impl IntoIterator<Item = (&'a str, SocketAddr)>) {
    for (name, address) in listeners {
        println!("{name} {address}");
    }
    println!();
}
