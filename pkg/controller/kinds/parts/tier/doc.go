// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tier builds the components of an application: a database, a cache, a backend, a
// frontend, monitoring and an Ingress. The kind of the application decides which of them it
// has, and package component starts them in order.
//
// The backend finds the database and the cache by its environment: DATABASE_TYPE,
// DATABASE_HOST, DATABASE_PORT, DATABASE_NAME, DATABASE_USER, DATABASE_PASSWORD,
// CACHE_HOST and CACHE_PORT. The frontend finds the backend by BACKEND_URL. Name, user and
// password of the database come from its Secret.
//
// [Application.JudgeBackups] reports whether the database is backed up.
package tier
