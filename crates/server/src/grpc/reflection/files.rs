//! File descriptors of the messages, reduced to the fields in use.

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    MethodDescriptorProto, ServiceDescriptorProto,
};

const RLS: &str = "envoy/service/ratelimit/v3/rls.proto";
const DESCRIPTOR: &str = "envoy/extensions/common/ratelimit/v3/ratelimit.proto";
const UNIT_FILE: &str = "envoy/type/v3/ratelimit_unit.proto";
const HEADER: &str = "envoy/config/core/v3/base.proto";
const DURATION: &str = "google/protobuf/duration.proto";
const WRAPPERS: &str = "google/protobuf/wrappers.proto";
const HEALTH: &str = "grpc/health/v1/health.proto";
const REFLECTION: &str = "grpc/reflection/v1/reflection.proto";
const REFLECTION_ALPHA: &str = "grpc/reflection/v1alpha/reflection.proto";

/// Returns a file and its dependencies; empty if it is unknown.
pub(in crate::grpc) fn files_of(name: &str) -> Vec<FileDescriptorProto> {
    let Some(file) = file(name) else { return Vec::new() };
    let dependencies: Vec<FileDescriptorProto> = file.dependency.iter().flat_map(|other| files_of(other)).collect();
    let mut files = vec![file];
    for other in dependencies {
        if files.iter().all(|known| known.name != other.name) {
            files.push(other);
        }
    }
    files
}

/// Returns the file with a service, a method or a message of this full name.
pub(in crate::grpc) fn file_of(symbol: &str) -> Option<&'static str> {
    let packages = [
        ("envoy.service.ratelimit.v3", RLS),
        ("envoy.extensions.common.ratelimit.v3", DESCRIPTOR),
        ("envoy.type.v3", UNIT_FILE),
        ("envoy.config.core.v3", HEADER),
        ("grpc.health.v1", HEALTH),
        ("grpc.reflection.v1", REFLECTION),
        ("grpc.reflection.v1alpha", REFLECTION_ALPHA),
    ];
    let is_in = |name: &str, package: &str| name.strip_prefix(package).is_some_and(|rest| rest.starts_with('.'));
    match symbol {
        "google.protobuf.Duration" => Some(DURATION),
        "google.protobuf.UInt64Value" => Some(WRAPPERS),
        _ => packages.into_iter().find(|(package, _)| is_in(symbol, package)).map(|(_, file)| file),
    }
}

fn file(name: &str) -> Option<FileDescriptorProto> {
    let file = match name {
        RLS => rls(),
        DESCRIPTOR => descriptor(),
        UNIT_FILE => units(),
        HEADER => header(),
        DURATION => file_with("google.protobuf", vec![duration()]),
        WRAPPERS => file_with("google.protobuf", vec![message("UInt64Value", &[field(1, "value", Type::Uint64)])]),
        HEALTH => health(),
        REFLECTION => reflection("grpc.reflection.v1"),
        REFLECTION_ALPHA => reflection("grpc.reflection.v1alpha"),
        _ => return None,
    };
    Some(FileDescriptorProto { name: Some(name.to_owned()), syntax: Some("proto3".to_owned()), ..file })
}

fn rls() -> FileDescriptorProto {
    const PACKAGE: &str = ".envoy.service.ratelimit.v3";
    let of = |name: &str| format!("{PACKAGE}.{name}");
    let request = message(
        "RateLimitRequest",
        &[
            field(1, "domain", Type::String),
            repeated_message(2, "descriptors", ".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor"),
            field(3, "hits_addend", Type::Uint32),
        ],
    );
    let limit = message(
        "RateLimit",
        &[
            field(1, "requests_per_unit", Type::Uint32),
            enum_field(2, "unit", &of("RateLimitResponse.RateLimit.Unit")),
            field(3, "name", Type::String),
        ],
    );
    let status = message(
        "DescriptorStatus",
        &[
            enum_field(1, "code", &of("RateLimitResponse.Code")),
            message_field(2, "current_limit", &of("RateLimitResponse.RateLimit")),
            field(3, "limit_remaining", Type::Uint32),
            message_field(4, "duration_until_reset", ".google.protobuf.Duration"),
        ],
    );
    let response = message(
        "RateLimitResponse",
        &[
            enum_field(1, "overall_code", &of("RateLimitResponse.Code")),
            repeated_message(2, "statuses", &of("RateLimitResponse.DescriptorStatus")),
            repeated_message(3, "response_headers_to_add", ".envoy.config.core.v3.HeaderValue"),
        ],
    );
    let response = DescriptorProto {
        nested_type: vec![DescriptorProto { enum_type: vec![enumeration("Unit", &UNITS)], ..limit }, status],
        enum_type: vec![enumeration("Code", &["UNKNOWN", "OK", "OVER_LIMIT"])],
        ..response
    };
    FileDescriptorProto {
        dependency: [DESCRIPTOR, HEADER, DURATION].map(str::to_owned).to_vec(),
        service: vec![service(
            "RateLimitService",
            &[method("ShouldRateLimit", &of("RateLimitRequest"), &of("RateLimitResponse"))],
        )],
        ..file_with("envoy.service.ratelimit.v3", vec![request, response])
    }
}

/// Requests and responses number weeks, months and years alike.
const UNITS: [&str; 8] = ["UNKNOWN", "SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR", "WEEK"];

fn descriptor() -> FileDescriptorProto {
    const MESSAGE: &str = ".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor";
    let entry = message("Entry", &[field(1, "key", Type::String), field(2, "value", Type::String)]);
    let limit = message(
        "RateLimitOverride",
        &[field(1, "requests_per_unit", Type::Uint32), enum_field(2, "unit", ".envoy.type.v3.RateLimitUnit")],
    );
    let descriptor = message(
        "RateLimitDescriptor",
        &[
            repeated_message(1, "entries", &format!("{MESSAGE}.Entry")),
            message_field(2, "limit", &format!("{MESSAGE}.RateLimitOverride")),
            message_field(3, "hits_addend", ".google.protobuf.UInt64Value"),
            field(4, "is_negative_hits", Type::Bool),
        ],
    );
    FileDescriptorProto {
        dependency: [UNIT_FILE, WRAPPERS].map(str::to_owned).to_vec(),
        ..file_with(
            "envoy.extensions.common.ratelimit.v3",
            vec![DescriptorProto { nested_type: vec![entry, limit], ..descriptor }],
        )
    }
}

fn units() -> FileDescriptorProto {
    FileDescriptorProto {
        enum_type: vec![enumeration("RateLimitUnit", &UNITS)],
        ..file_with("envoy.type.v3", Vec::new())
    }
}

fn header() -> FileDescriptorProto {
    let header = message("HeaderValue", &[field(1, "key", Type::String), field(2, "value", Type::String)]);
    file_with("envoy.config.core.v3", vec![header])
}

fn duration() -> DescriptorProto {
    message("Duration", &[field(1, "seconds", Type::Int64), field(2, "nanos", Type::Int32)])
}

fn health() -> FileDescriptorProto {
    const STATUS: &str = ".grpc.health.v1.HealthCheckResponse.ServingStatus";
    let (input, output) = (".grpc.health.v1.HealthCheckRequest", ".grpc.health.v1.HealthCheckResponse");
    let request = message("HealthCheckRequest", &[field(1, "service", Type::String)]);
    let response = DescriptorProto {
        enum_type: vec![enumeration("ServingStatus", &["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"])],
        ..message("HealthCheckResponse", &[enum_field(1, "status", STATUS)])
    };
    let watch = MethodDescriptorProto { server_streaming: Some(true), ..method("Watch", input, output) };
    FileDescriptorProto {
        service: vec![service("Health", &[method("Check", input, output), watch])],
        ..file_with("grpc.health.v1", vec![request, response])
    }
}

fn reflection(package: &str) -> FileDescriptorProto {
    let of = |name: &str| format!(".{package}.{name}");
    let request = message(
        "ServerReflectionRequest",
        &[
            field(1, "host", Type::String),
            field(3, "file_by_filename", Type::String),
            field(4, "file_containing_symbol", Type::String),
            field(7, "list_services", Type::String),
        ],
    );
    let response = message(
        "ServerReflectionResponse",
        &[
            field(1, "valid_host", Type::String),
            message_field(2, "original_request", &of("ServerReflectionRequest")),
            message_field(4, "file_descriptor_response", &of("FileDescriptorResponse")),
            message_field(6, "list_services_response", &of("ListServiceResponse")),
            message_field(7, "error_response", &of("ErrorResponse")),
        ],
    );
    let files = message("FileDescriptorResponse", &[repeated_field(1, "file_descriptor_proto", Type::Bytes)]);
    let services = message("ListServiceResponse", &[repeated_message(1, "service", &of("ServiceResponse"))]);
    let service_name = message("ServiceResponse", &[field(1, "name", Type::String)]);
    let error =
        message("ErrorResponse", &[field(1, "error_code", Type::Int32), field(2, "error_message", Type::String)]);
    let info = method("ServerReflectionInfo", &of("ServerReflectionRequest"), &of("ServerReflectionResponse"));
    let info = MethodDescriptorProto { client_streaming: Some(true), server_streaming: Some(true), ..info };
    FileDescriptorProto {
        service: vec![service("ServerReflection", &[info])],
        ..file_with(package, vec![request, response, files, services, service_name, error])
    }
}

fn file_with(package: &str, messages: Vec<DescriptorProto>) -> FileDescriptorProto {
    FileDescriptorProto { package: Some(package.to_owned()), message_type: messages, ..FileDescriptorProto::default() }
}

fn message(name: &str, fields: &[FieldDescriptorProto]) -> DescriptorProto {
    DescriptorProto { name: Some(name.to_owned()), field: fields.to_vec(), ..DescriptorProto::default() }
}

fn field(number: i32, name: &str, kind: Type) -> FieldDescriptorProto {
    FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        label: Some(Label::Optional.into()),
        r#type: Some(kind.into()),
        ..FieldDescriptorProto::default()
    }
}

fn repeated_field(number: i32, name: &str, kind: Type) -> FieldDescriptorProto {
    FieldDescriptorProto { label: Some(Label::Repeated.into()), ..field(number, name, kind) }
}

fn message_field(number: i32, name: &str, message: &str) -> FieldDescriptorProto {
    FieldDescriptorProto { type_name: Some(message.to_owned()), ..field(number, name, Type::Message) }
}

fn repeated_message(number: i32, name: &str, message: &str) -> FieldDescriptorProto {
    FieldDescriptorProto { label: Some(Label::Repeated.into()), ..message_field(number, name, message) }
}

fn enum_field(number: i32, name: &str, enumeration: &str) -> FieldDescriptorProto {
    FieldDescriptorProto { type_name: Some(enumeration.to_owned()), ..field(number, name, Type::Enum) }
}

fn enumeration(name: &str, values: &[&str]) -> EnumDescriptorProto {
    let value = |(number, name): (i32, &&str)| EnumValueDescriptorProto {
        name: Some((*name).to_owned()),
        number: Some(number),
        options: None,
    };
    EnumDescriptorProto {
        name: Some(name.to_owned()),
        value: (0..).zip(values).map(value).collect(),
        ..EnumDescriptorProto::default()
    }
}

fn method(name: &str, input: &str, output: &str) -> MethodDescriptorProto {
    MethodDescriptorProto {
        name: Some(name.to_owned()),
        input_type: Some(input.to_owned()),
        output_type: Some(output.to_owned()),
        ..MethodDescriptorProto::default()
    }
}

fn service(name: &str, methods: &[MethodDescriptorProto]) -> ServiceDescriptorProto {
    ServiceDescriptorProto { name: Some(name.to_owned()), method: methods.to_vec(), options: None }
}
