//! The health check that the agent serves: by each socket's own file.

use crate::world::{World, free_port, wait_for};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn exchange(port: u16, request: &str) -> String {
    let asked = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        Some(answer)
    };
    asked.await.unwrap_or_default()
}

const GET: &str = "GET /healthcheck HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n\r\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_socket_answers_by_its_own_file() {
    let mut world = World::new().await;
    let (one, two, check) = (free_port(), free_port(), free_port());
    let second = world.path().join("second");
    world.more = format!(
        "initial_release = \"pantry-1\"\nhealthcheck = {{ listen = \"127.0.0.1:{one}\", \
         files = {{ \"127.0.0.1:{two}\" = {second:?} }}, agent_check = \"127.0.0.1:{check}\" }}"
    );
    let _agent = world.agent();
    let good = |answer: &String| answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("\r\n\r\nOK");
    wait_for("200", &world, || exchange(one, GET), good).await;
    wait_for("up", &world, || exchange(check, ""), |word| word == "up ready\n").await;
    std::fs::write(&second, "").unwrap();
    let disabled = exchange(two, GET).await;
    assert!(
        disabled.starts_with("HTTP/1.1 503") && disabled.ends_with("\r\n\r\nDISABLED BY FILE"),
        "{disabled}"
    );
    assert!(good(&exchange(one, GET).await));
    std::fs::write(world.disable_file(), "by hand").unwrap();
    assert!(exchange(one, GET).await.starts_with("HTTP/1.1 503"));
    assert_eq!(exchange(check, "").await, "drain\n");
}
