// ioredis against the service on the port of the argument.
const assert = require("node:assert");
const Redis = require("ioredis");

async function main(port) {
  const client = new Redis({ port, connectionName: "test", db: 0, maxRetriesPerRequest: 0 });
  assert.equal(await client.ping(), "PONG");
  assert.deepEqual(await client.call("CL.THROTTLE", "node", 15, 30, 60), [0, 16, 15, -1, 2]);
  assert.deepEqual(await client.call("TOLL.CHECK", "ip", "203.0.113.9"), [1, "per-ip", 60, 59, -1, 1000]);
  assert.deepEqual(await client.call("TOLL.CHECK", "colour", "blue"), [1, null, null, null, -1, null]);
  assert.equal(await client.client("GETNAME"), "test");
  assert.match(await client.info(), /redis_version:7\.0\.0/);

  await assert.rejects(client.get("a"), /unknown command/);
  await assert.rejects(client.call("CL.THROTTLE", "node"), /wrong number of arguments/);
  await assert.rejects(client.call("CL.THROTTLE", "node", 15, 0, 60), /count must be at least 1/);
  await assert.rejects(client.call("TOLL.CHECK", "ip"), /wrong number of arguments/);

  const pipeline = client.pipeline();
  for (let i = 0; i < 100; i++) pipeline.call("CL.THROTTLE", "node", 15, 30, 60);
  pipeline.call("NO.SUCH").call("CL.THROTTLE", "other", 15, 30, 60);
  const replies = await pipeline.exec();
  assert.equal(replies.filter(([error, reply]) => !error && reply[0] === 0).length, 16);
  assert.deepEqual(replies[99], [null, [1, 16, 0, 2, 32]]);
  // An error does not affect the commands before and after it.
  assert.match(replies[100][0].message, /unknown command/);
  assert.deepEqual(replies[101], [null, [0, 16, 15, -1, 2]]);

  const automatic = new Redis({ port, enableAutoPipelining: true, maxRetriesPerRequest: 0 });
  const decisions = await Promise.all(Array.from({ length: 8 }, () => automatic.call("CL.THROTTLE", "auto", 4, 1, 60)));
  assert.equal(decisions.filter(([limited]) => limited === 0).length, 5);

  assert.equal(await client.quit(), "OK");
  automatic.disconnect();
  console.log("ioredis", require("ioredis/package.json").version);
}

main(Number(process.argv[2])).catch((error) => {
  console.error(error);
  process.exit(1);
});
