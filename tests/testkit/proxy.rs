//! The proxy in front of a real server: here, an upstream.

use crate::Numbers;
use crate::wire::{End, STREAM, exchange, open, read_to_end, read_until, request, soon};
use streamkeep::testkit::{
    ByteProxy, ClosedPort, Cut, Gate, ProxyEnd, ProxyPlan, Scenario, Upstream,
};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

const PATH: &str = "/v1/chat/completions";

/// What a fresh server sends for its first request, heads and framing included.
async fn whole() -> Vec<u8> {
    let upstream = Upstream::start(scenario()).await.unwrap();
    all_bytes(&upstream.url()).await.0
}

fn scenario() -> Scenario {
    Scenario::openai_chat().words(20)
}

async fn all_bytes(url: &str) -> (Vec<u8>, bool) {
    let mut stream = open(url, "POST", PATH, STREAM).await;
    let mut got = Vec::new();
    let end = soon(stream.read_to_end(&mut got)).await;
    (got, end.is_err())
}

#[tokio::test]
async fn everything_passes_and_is_counted() {
    let upstream = Upstream::start(scenario()).await.unwrap();
    let proxy = ByteProxy::start(&upstream.url(), ProxyPlan::new())
        .await
        .unwrap();
    let (got, reset) = all_bytes(&proxy.url()).await;
    assert_eq!((&got, reset), (&whole().await, false));
    let seen = soon(proxy.wait_until_ended(1)).await.unwrap();
    assert_eq!(seen.ended, Some(ProxyEnd::Server));
    assert_eq!(usize::try_from(seen.to_client).unwrap(), got.len());
    let sent = request("POST", PATH, STREAM).len();
    assert_eq!(usize::try_from(seen.to_server).unwrap(), sent);
}

#[tokio::test]
async fn a_cut_is_exact_to_the_byte() {
    let whole = whole().await;
    let mut numbers = Numbers(11);
    let some: Vec<usize> = (0..25).map(|_| numbers.below(whole.len())).collect();
    for n in [0, 1, whole.len() - 1, whole.len()].into_iter().chain(some) {
        let at = u64::try_from(n).unwrap();
        for cut in [Cut::Fin(at), Cut::Rst(at)] {
            let upstream = Upstream::start(scenario()).await.unwrap();
            let plan = ProxyPlan::new().on(1, cut.clone());
            let proxy = ByteProxy::start(&upstream.url(), plan).await.unwrap();
            let (got, reset) = all_bytes(&proxy.url()).await;
            assert_eq!(got, &whole[..n], "{cut:?}");
            assert_eq!(reset, matches!(cut, Cut::Rst(_)), "{cut:?}");
            let seen = soon(proxy.wait_until_ended(1)).await.unwrap();
            assert_eq!((seen.to_client, seen.ended), (at, Some(ProxyEnd::Cut)));
        }
    }
}

#[tokio::test]
async fn a_cut_beyond_the_end_is_none() {
    let upstream = Upstream::start(scenario()).await.unwrap();
    let plan = ProxyPlan::new().otherwise(Cut::Rst(1_000_000));
    let proxy = ByteProxy::start(&upstream.url(), plan).await.unwrap();
    assert_eq!(all_bytes(&proxy.url()).await, (whole().await, false));
}

#[tokio::test]
async fn connections_are_cut_by_their_number() {
    let upstream = Upstream::start(scenario()).await.unwrap();
    let plan = ProxyPlan::new().on(2, Cut::Rst(10));
    let proxy = ByteProxy::start(&upstream.url(), plan).await.unwrap();
    let mut ends = Vec::new();
    for _ in 0..3 {
        ends.push(exchange(&proxy.url(), "POST", PATH, STREAM).await.end);
    }
    assert_eq!(ends, [End::Fin, End::Rst, End::Fin]);
    soon(proxy.wait_for_connections(3)).await;
    assert_eq!(proxy.connections().len(), 3);
}

#[tokio::test]
async fn a_stall_lasts_until_the_client_leaves_and_the_server_learns_of_it() {
    let gate = Gate::new();
    let upstream = Upstream::start(scenario().gate(&gate)).await.unwrap();
    let plan = ProxyPlan::new().on(1, Cut::Stall(40));
    let proxy = ByteProxy::start(&upstream.url(), plan).await.unwrap();
    let mut stream = open(&proxy.url(), "POST", PATH, STREAM).await;
    let mut got = [0_u8; 40];
    soon(stream.read_exact(&mut got)).await.unwrap();
    assert_eq!(got[..], whole().await[..40]);
    assert_eq!(proxy.connections()[0].ended, None);
    drop(stream);
    let seen = soon(proxy.wait_until_ended(1)).await.unwrap();
    assert_eq!((seen.to_client, seen.ended), (40, Some(ProxyEnd::Client)));
    assert!(soon(upstream.wait_until_closed(1)).await);
}

#[tokio::test]
async fn a_held_response_goes_on_when_the_gate_opens() {
    let gate = Gate::new();
    let upstream = Upstream::start(scenario()).await.unwrap();
    let plan = ProxyPlan::new().on(1, Cut::Hold(300, gate.clone()));
    let proxy = ByteProxy::start(&upstream.url(), plan).await.unwrap();
    let mut stream = open(&proxy.url(), "POST", PATH, STREAM).await;
    soon(gate.wait_for_arrivals(1)).await;
    assert_eq!(proxy.connections()[0].to_client, 300);
    gate.open();
    let got = read_to_end(&mut stream).await;
    assert!(whole().await.ends_with(&got.rest));
    assert_eq!(got.end, End::Fin);
}

#[tokio::test]
async fn a_client_that_leaves_is_passed_on() {
    let gate = Gate::new();
    let upstream = Upstream::start(scenario().gate(&gate)).await.unwrap();
    let proxy = ByteProxy::start(&upstream.url(), ProxyPlan::new())
        .await
        .unwrap();
    let mut stream = open(&proxy.url(), "POST", PATH, STREAM).await;
    gate.permit(3);
    read_until(&mut stream, "w2").await;
    drop(stream);
    assert!(soon(upstream.wait_until_closed(1)).await);
}

#[tokio::test]
async fn a_cut_closes_the_servers_side_too() {
    let gate = Gate::new();
    let upstream = Upstream::start(scenario().gate(&gate)).await.unwrap();
    let plan = ProxyPlan::new().on(1, Cut::Fin(50));
    let proxy = ByteProxy::start(&upstream.url(), plan).await.unwrap();
    let (got, _) = all_bytes(&proxy.url()).await;
    assert_eq!(got.len(), 50);
    assert!(soon(upstream.wait_until_closed(1)).await);
}

#[tokio::test]
async fn a_server_that_is_not_there_resets_the_client() {
    let port = ClosedPort::take().unwrap();
    let proxy = ByteProxy::start(&port.url(), ProxyPlan::new())
        .await
        .unwrap();
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    assert!(soon(stream.read_u8()).await.is_err());
    let seen = soon(proxy.wait_until_ended(1)).await.unwrap();
    assert_eq!(seen.ended, Some(ProxyEnd::Unreachable));
    soon(proxy.stop()).await;
}
