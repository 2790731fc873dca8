use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollgate_server::resp::{Parsed, Parser, RespLimits};

/// The constant reply: that of a first command under the requested limit.
const ONE_ANSWER: &[u8] = b"*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:1\r\n";

/// Reads, parses and writes like the service, and decides nothing.
pub(super) async fn serve(listener: TcpListener) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        tokio::spawn(answer_all(stream));
    }
}

async fn answer_all(mut stream: TcpStream) {
    let mut parser = Parser::new(RespLimits::default());
    let (mut input, mut output) = (Vec::with_capacity(4096), Vec::new());
    loop {
        input.reserve(4096);
        if stream.read_buf(&mut input).await.unwrap() == 0 {
            return;
        }
        let mut answered = 0;
        loop {
            match parser.parse(&input[answered..]).unwrap() {
                Parsed::Part => break,
                Parsed::Nothing(length) => answered += length,
                Parsed::Command(length) => {
                    output.extend_from_slice(ONE_ANSWER);
                    answered += length;
                }
            }
        }
        input.drain(..answered);
        stream.write_all(&output).await.unwrap();
        output.clear();
    }
}
