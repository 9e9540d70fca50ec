-- Stands alone. Returns the server's time and what the marker holds.
local t = redis.call('TIME')
return {t[1], t[2], redis.call('GET', KEYS[1])}
