"""grpcio against the service at the address of the first argument; over TLS if a second argument
is the file of a certificate authority.

All message types come from server reflection: nothing was compiled.
"""

import sys

import grpc
from google.protobuf import message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

address = sys.argv[1]
if len(sys.argv) > 2:
    with open(sys.argv[2], "rb") as authority:
        channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(authority.read()))
else:
    channel = grpc.insecure_channel(address)

database = ProtoReflectionDescriptorDatabase(channel)
assert "envoy.service.ratelimit.v3.RateLimitService" in database.get_services()
pool = DescriptorPool(database)


def caller(service, name):
    method = pool.FindServiceByName(service).FindMethodByName(name)
    request = message_factory.GetMessageClass(method.input_type)
    response = message_factory.GetMessageClass(method.output_type)
    call = channel.unary_unary(
        f"/{service}/{name}", request_serializer=request.SerializeToString, response_deserializer=response.FromString
    )
    return request, lambda message: call(message, timeout=20)


Health, check = caller("grpc.health.v1.Health", "Check")
assert check(Health()).status == 1

RateLimitRequest, should_rate_limit = caller("envoy.service.ratelimit.v3.RateLimitService", "ShouldRateLimit")


def rate_limit_request(domain, **entries):
    request = RateLimitRequest(domain=domain)
    descriptor = request.descriptors.add()
    for key, value in entries.items():
        descriptor.entries.add(key=key, value=value)
    return request


OK, OVER_LIMIT = 1, 2
responses = [should_rate_limit(rate_limit_request("edge", remote_address="203.0.113.9")) for _ in range(3)]
assert [response.overall_code for response in responses] == [OK, OK, OVER_LIMIT], responses
assert [response.statuses[0].limit_remaining for response in responses] == [1, 0, 0], responses
fields = {field.key.lower(): field.value for field in responses[2].response_headers_to_add}
assert fields["retry-after"] == "1800" and fields["ratelimit"] == '"per-ip";r=0;t=1800', fields

try:
    should_rate_limit(rate_limit_request("", remote_address="203.0.113.9"))
    raise SystemExit("a request without a domain was accepted")
except grpc.RpcError as error:
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, error
print("grpcio", grpc.__version__)
