-- The functions of Kong's plugin development kit that deploy/kong/kong.yaml uses, as its documentation describes them.
local kong = { request = {}, client = {}, response = {}, log = {}, ctx = {} }

kong.request.get_method = function() return ngx.req.get_method() end
kong.request.get_host = function() return ngx.var.host end
kong.request.get_path_with_query = function() return ngx.var.request_uri end
kong.request.get_headers = function(max) return ngx.req.get_headers(max) end
kong.client.get_forwarded_ip = function() return ngx.var.remote_addr end
kong.response.set_header = function(name, value) ngx.header[name] = value end
kong.log.err = function(...) ngx.log(ngx.ERR, ...) end
-- Of one request, like the original.
kong.ctx.shared = setmetatable({}, {
    __index = function(_, key) return ngx.ctx[key] end,
    __newindex = function(_, key, value) ngx.ctx[key] = value end,
})

kong.response.exit = function(status, body, headers)
    ngx.status = status
    for name, value in pairs(headers or {}) do
        ngx.header[name] = value
    end
    ngx.header["Content-Length"] = #body
    ngx.print(body)
    return ngx.exit(status)
end

return kong
