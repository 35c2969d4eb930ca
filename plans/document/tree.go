package document

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// entry returns the value of a mapping's key, or nil if there is none.
func entry(node *yaml.Node, key string) *yaml.Node {
	if node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}
	return nil
}

// child returns the value of a mapping's key. It creates the value if there is none.
func child(node *yaml.Node, key string, kind yaml.Kind) *yaml.Node {
	found := entry(node, key)
	if found == nil || isNull(found) {
		found = put(node, key, &yaml.Node{Kind: kind})
	}
	return found
}

// put sets the value of a mapping's key, at its existing place or else at the end, and returns the value.
func put(node *yaml.Node, key string, value *yaml.Node) *yaml.Node {
	if found := entry(node, key); found != nil {
		replace(found, value)
		return found
	}
	node.Content = append(node.Content, textNode(key), value)
	return value
}

// remove removes a key of a mapping and its value.
func remove(node *yaml.Node, key string) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			node.Content = slices.Delete(node.Content, i, i+2)
			return
		}
	}
}

// replace replaces a value and keeps the comments of the old one.
func replace(old, value *yaml.Node) {
	value.HeadComment, value.LineComment, value.FootComment = old.HeadComment, old.LineComment, old.FootComment
	*old = *value
}

func textNode(value string) *yaml.Node {
	node := &yaml.Node{}
	node.SetString(value)
	if value == mergeKey {
		// The encoder would write it without quotes, and a reader would take it for a merge key.
		node.Style = yaml.DoubleQuotedStyle
	}
	return node
}

// mergeKey is YAML's key that merges the fields of another mapping.
const mergeKey = "<<"
