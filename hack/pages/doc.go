// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pages runs the commands of documentation pages in order and in one shell, shows them with
// their output, and compares the output with the page.
//
// Commands are the lines of blocks of the language "console" that begin with "$ ". A command that
// ends with a backslash continues on the next line, and lines that begin with "> " belong to the
// command above them. The other lines of a block are the expected output of the command above them.
// A command without expected output only has to succeed.
//
// In expected output, "..." stands for any text within a line, and a line "..." for any lines. Ages
// and the random ends of the names of pods may differ.
//
// # Watches
//
// A command that ends with "&" and has expected output is a watch: the player waits until the watch
// has printed these lines. Later commands of the block show their own output, followed by the new
// output of the watch. The player waits for these lines, too, and measures the time from the first
// to the last. It ignores all other lines of the watch.
//
// # Comments
//
// A comment above a block, which is invisible in the rendered page, says that the block is not run,
// or that it is run only if a command succeeds:
//
//	<!-- not run: the reason -->
//	<!-- run if: the command -->
package pages
