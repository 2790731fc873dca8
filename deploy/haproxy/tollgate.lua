-- The action `tollgate`: asks whether the request may pass, and returns the refusal to the client.

-- A client could describe another request with these, or change the connection to tollgate.
local DROPPED = {
    ["forwarded"] = true,
    ["x-forwarded-for"] = true,
    ["x-forwarded-host"] = true,
    ["x-forwarded-method"] = true,
    ["x-forwarded-uri"] = true,
    ["x-original-method"] = true,
    ["x-original-uri"] = true,
    ["x-real-ip"] = true,
    ["connection"] = true,
    ["content-length"] = true,
    ["expect"] = true,
    ["host"] = true,
    ["keep-alive"] = true,
    ["te"] = true,
    ["trailer"] = true,
    ["transfer-encoding"] = true,
    ["upgrade"] = true,
}

-- The fields that the configuration gives to the client, and their variables.
local FIELDS = {
    ["ratelimit"] = "txn.tollgate.ratelimit",
    ["ratelimit-policy"] = "txn.tollgate.policy",
    ["x-ratelimit-limit"] = "txn.tollgate.limit",
    ["x-ratelimit-remaining"] = "txn.tollgate.remaining",
    ["x-ratelimit-reset"] = "txn.tollgate.reset",
    ["x-ratelimit-warning"] = "txn.tollgate.warning",
}

-- Longer than the timeouts of the backend `tollgate` together, in milliseconds.
local TIMEOUT = 2000

local function description(txn)
    local headers = {}
    for name, values in pairs(txn.http:req_get_headers()) do
        if not DROPPED[name] then
            headers[name] = {}
            for index = 0, #values do
                table.insert(headers[name], values[index])
            end
        end
    end
    headers["x-forwarded-method"] = { txn.sf:method() }
    headers["x-forwarded-uri"] = { txn.sf:pathq() }
    headers["x-forwarded-host"] = { txn.sf:req_hdr("host") }
    headers["x-forwarded-for"] = { txn.sf:src() }
    return headers
end

core.register_action("tollgate", { "http-req" }, function(txn)
    local response = core.httpclient():get({
        url = "http://tollgate/v1/forward-auth",
        -- The frontend `ask`.
        dst = "127.0.0.1:10001",
        headers = description(txn),
        timeout = TIMEOUT,
    })
    local fields = response and response.headers or {}
    -- Without this field tollgate is unreachable: the configuration decides.
    if not fields["tollgate-answered"] then
        return
    end
    txn:set_var("txn.tollgate.status", response.status)
    for field, variable in pairs(FIELDS) do
        if fields[field] then
            txn:set_var(variable, fields[field][0])
        end
    end
    if response.status == 200 then
        return
    end
    local reply = txn:reply({ status = response.status, body = response.body })
    for _, field in ipairs({ "content-type", "retry-after" }) do
        if fields[field] then
            reply:add_header(field, fields[field][0])
        end
    end
    txn:done(reply)
end, 0)
