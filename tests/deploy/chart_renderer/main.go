// Renders the templates of a chart with Go's own template engine, which Helm uses, and the few functions that the chart
// needs; for machines without Helm. toYaml writes JSON, which is YAML.
//
//	go run main.go TEMPLATES < {"Values": …, "Release": …, "Chart": …}
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

func main() {
	var data map[string]any
	check(json.NewDecoder(os.Stdin).Decode(&data))
	root := template.New("chart").Option("missingkey=error")
	root.Funcs(template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var out bytes.Buffer
			err := root.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
		"fail":       func(text string) (string, error) { return "", errors.New(text) },
		"nindent":    func(n int, text string) string { return "\n" + indented(n, text) },
		"toYaml":     func(value any) (string, error) { text, err := json.Marshal(value); return string(text), err },
		"quote":      func(value any) string { return fmt.Sprintf("%q", fmt.Sprint(value)) },
		"toString":   func(value any) string { return fmt.Sprint(value) },
		"int":        func(value any) int { return int(value.(float64)) },
		"upper":      strings.ToUpper,
		"replace":    func(old, new, text string) string { return strings.ReplaceAll(text, old, new) },
		"trimSuffix": func(end, text string) string { return strings.TrimSuffix(text, end) },
		"trunc":      func(n int, text string) string { return text[:min(n, len(text))] },
		"ternary": func(yes, no any, is bool) any {
			if is {
				return yes
			}
			return no
		},
		"default": func(usual, value any) any {
			if value == nil || value == "" {
				return usual
			}
			return value
		},
		"join": func(by string, values []any) string {
			texts := []string{}
			for _, one := range values {
				texts = append(texts, fmt.Sprint(one))
			}
			return strings.Join(texts, by)
		},
	})
	paths, err := filepath.Glob(filepath.Join(os.Args[1], "*"))
	check(err)
	_, err = root.ParseFiles(paths...)
	check(err)
	for _, path := range paths {
		if strings.HasSuffix(path, ".yaml") {
			fmt.Println("---")
			check(root.ExecuteTemplate(os.Stdout, filepath.Base(path), data))
		}
	}
}

func indented(n int, text string) string {
	return strings.Repeat(" ", n) + strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", n))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
