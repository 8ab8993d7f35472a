// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs runs the commands of the pages that newcomers follow, in order and in one shell, on a local control
// plane. It compares what the commands print with what the pages show.
//
// Commands are the lines of blocks of the language "console" that begin with "$ ". A command that ends with a backslash
// continues on the next line, and lines that begin with "> " belong to the command above them. The other lines of a
// block are the expected output of the command above them. A command without expected output only has to succeed.
//
// In expected output, "..." stands for any text within a line, and a line "..." for any lines. Ages and the random ends
// of the names of pods may differ.
//
// A block below the comment "not run" is not run. The comment is invisible in the rendered page:
//
//	<!-- not run: the reason -->
package docs
