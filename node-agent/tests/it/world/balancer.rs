//! A balancer's stats socket. By itself it follows the health URL as a balancer does; a test may also say what it
//! says.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixListener};

#[derive(Debug, Clone, Default)]
struct Says {
    status: String,
    sessions: u32,
    by_hand: bool,
    asked: u64,
}

#[derive(Clone)]
pub(crate) struct Balancer(Arc<Mutex<Says>>);

impl Balancer {
    pub(crate) async fn start(socket: &Path, port: u16) -> Self {
        let says = Arc::new(Mutex::new(Says { status: "DOWN".to_owned(), ..Says::default() }));
        let listener = UnixListener::bind(socket).unwrap();
        let answered = says.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut question = [0; 64];
                let _ = stream.read(&mut question).await;
                let text = {
                    let mut says = answered.lock().unwrap();
                    says.asked += 1;
                    format!(
                        "# pxname,svname,scur,status,\npantry,BACKEND,0,UP,\npantry,n1,{},{},\n\n",
                        says.sessions, says.status
                    )
                };
                let _ = stream.write_all(text.as_bytes()).await;
            }
        });
        let followed = says.clone();
        tokio::spawn(async move {
            let (mut good, mut bad) = (0, 0);
            loop {
                let up = check(port).await;
                (good, bad) = if up { (good + 1, 0) } else { (0, bad + 1) };
                {
                    let mut says = followed.lock().unwrap();
                    if !says.by_hand && (good >= 2 || bad >= 2) {
                        says.status = if up { "UP".to_owned() } else { "DOWN".to_owned() };
                    }
                }
                tokio::time::sleep(Duration::from_millis(25)).await;
            }
        });
        Self(says)
    }

    /// From now on it says this.
    pub(crate) fn say(&self, status: &str, sessions: u32) {
        let mut says = self.0.lock().unwrap();
        says.by_hand = true;
        says.status = status.to_owned();
        says.sessions = sessions;
    }

    /// From now on it follows the health URL.
    pub(crate) fn follow(&self) {
        let mut says = self.0.lock().unwrap();
        says.by_hand = false;
        says.sessions = 0;
    }

    pub(crate) fn status(&self) -> String {
        self.0.lock().unwrap().status.clone()
    }

    /// How often it was asked.
    pub(crate) fn asked(&self) -> u64 {
        self.0.lock().unwrap().asked
    }
}

async fn check(port: u16) -> bool {
    let asked = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
        stream.write_all(b"GET /healthcheck HTTP/1.1\r\nhost: n1\r\nconnection: close\r\n\r\n").await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        Some(answer.starts_with("HTTP/1.1 200"))
    };
    tokio::time::timeout(Duration::from_secs(1), asked).await.ok().flatten().unwrap_or(false)
}
