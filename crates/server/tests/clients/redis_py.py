"""redis-py against the service on the port of the argument."""

import asyncio
import sys

import redis
import redis.asyncio

port = int(sys.argv[1])


def assert_error(call, *expected):
    try:
        call()
    except redis.ResponseError as error:
        assert all(word in str(error) for word in expected), error
    else:
        raise SystemExit(f"no error with {expected}")


for protocol in (2, 3):
    client = redis.Redis(port=port, protocol=protocol, client_name="test", db=0)
    assert client.ping()
    key = f"python-{protocol}"
    assert client.execute_command("CL.THROTTLE", key, 15, 30, 60) == [0, 16, 15, -1, 2]
    assert client.execute_command("TOLL.CHECK", "ip", f"203.0.113.{protocol}") == [1, b"per-ip", 60, 59, -1, 1000]
    assert client.execute_command("TOLL.CHECK", "colour", "blue") == [1, None, None, None, -1, None]
    assert client.client_getname() in (b"test", "test")
    assert client.info()["redis_version"] == "7.0.0"
    assert client.echo(b"\xff\r\n") == b"\xff\r\n"

    assert_error(lambda: client.get("a"), "unknown command", "GET")
    assert_error(lambda: client.execute_command("CL.THROTTLE", key), "wrong number of arguments")
    assert_error(lambda: client.execute_command("CL.THROTTLE", key, 15, 0, 60), "count must be at least 1")
    assert_error(lambda: client.execute_command("TOLL.CHECK", "ip"), "wrong number of arguments")

    pipeline = client.pipeline(transaction=False)
    for _ in range(100):
        pipeline.execute_command("CL.THROTTLE", key, 15, 30, 60)
    replies = pipeline.execute()
    assert sum(reply[0] == 0 for reply in replies) == 15, replies
    assert replies[-1] == [1, 16, 0, 2, 32], replies[-1]

    # An error does not affect the commands before and after it.
    pipeline.execute_command("CL.THROTTLE", key + "-a", 15, 30, 60)
    pipeline.execute_command("NO.SUCH", key)
    pipeline.execute_command("CL.THROTTLE", key + "-b", 15, 30, 60)
    first, error, last = pipeline.execute(raise_on_error=False)
    assert first == last == [0, 16, 15, -1, 2] and isinstance(error, redis.ResponseError), (first, error, last)


async def concurrent_commands():
    client = redis.asyncio.Redis(port=port, decode_responses=True, max_connections=8)
    commands = [client.execute_command("CL.THROTTLE", "async", 4, 1, 60) for _ in range(8)]
    replies = await asyncio.gather(*commands)
    assert sum(reply[0] == 0 for reply in replies) == 5, replies
    assert (await client.execute_command("TOLL.CHECK", "ip", "203.0.113.9"))[1] == "per-ip"
    await client.aclose()


asyncio.run(concurrent_commands())
print("redis-py", redis.__version__)
