module race/nethttp

go 1.21
