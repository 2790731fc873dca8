-- A client with the functions of lua-resty-http that deploy/kong/kong.yaml uses. Debian does not have the original.
local http = {}
http.__index = http

http.new = function()
    return setmetatable({ socket = ngx.socket.tcp() }, http)
end

function http:set_timeouts(connect, send, read)
    self.socket:settimeouts(connect, send, read)
end

local function read_head(socket)
    local line, err = socket:receive()
    if not line then return nil, err end
    local answer = { status = tonumber(line:match("^HTTP/1%.1 (%d+)")) }
    local values = {}
    for field in function() return socket:receive() end do
        if field == "" then break end
        local name, value = field:match("^([^:]+):%s*(.*)$")
        values[name:lower()] = value
    end
    answer.headers = setmetatable({}, { __index = function(_, name) return values[name:lower()] end })
    return answer
end

function http:request_uri(uri, options)
    local host, port, path = uri:match("^http://([^:/]+):(%d+)(/.*)$")
    local ok, err = self.socket:connect(host, tonumber(port))
    if not ok then return nil, err end
    local request = { options.method .. " " .. path .. " HTTP/1.1", "Host: " .. host }
    for name, values in pairs(options.headers) do
        for _, value in ipairs(type(values) == "table" and values or { values }) do
            table.insert(request, name .. ": " .. value)
        end
    end
    ok, err = self.socket:send(table.concat(request, "\r\n") .. "\r\n\r\n")
    if not ok then return nil, err end
    local answer
    answer, err = read_head(self.socket)
    if not answer then return nil, err end
    answer.body = ""
    local length = tonumber(answer.headers["content-length"] or 0)
    if length > 0 then
        answer.body, err = self.socket:receive(length)
        if not answer.body then return nil, err end
    end
    self.socket:setkeepalive(options.keepalive_timeout, options.keepalive_pool)
    return answer
end

return http
