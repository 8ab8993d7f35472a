// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// policy allows the files of the server and nothing else. Trusted Types without a policy forbid all
// functions that make HTML or scripts of a text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// guarded refuses requests by another name than one of loopback, and sets the headers of all
// answers. A name that is not one of loopback may belong to a page that lets its name point here
// (DNS rebinding). The port may be another one, as with a port forwarding of SSH.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		if !isLoopback(r.Host) {
			refuse(w, http.StatusForbidden, "the page answers only to localhost and 127.0.0.1")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLoopback reports whether a Host header names loopback.
func isLoopback(host string) bool {
	name := host
	if withoutPort, _, err := net.SplitHostPort(host); err == nil {
		name = withoutPort
	}
	address, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return strings.EqualFold(name, "localhost") || err == nil && address.IsLoopback()
}

// isCrossOrigin reports whether a browser sent a request for a page of another origin. Reads are
// refused, too, other than by http.CrossOriginProtection. Programs that are no browsers send neither
// header.
func isCrossOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return true
	}
	origin := r.Header.Get("Origin")
	return origin != "" && origin != "http://"+r.Host
}

// authorized refuses requests without the token, and requests of pages of another origin.
func (s *Server) authorized(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1 {
			refuse(w, http.StatusUnauthorized, "open the URL that kubectl demoapp ui printed")
			return
		}
		if isCrossOrigin(r) {
			refuse(w, http.StatusForbidden, "the page answers only to its own origin")
			return
		}
		next.ServeHTTP(w, r)
	})
}
