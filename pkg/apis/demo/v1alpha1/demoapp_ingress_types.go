// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// IngressSpec says how the app is reached from outside the cluster: by an
// Ingress, by an HTTPRoute, or by both. Each is there as long as the cluster
// supports it.
//
// +kubebuilder:validation:XValidation:rule="has(self.className) || has(self.gateway)",message="className or gateway is required",reason=FieldValueRequired
type IngressSpec struct {
	// host is the name by which the app is reached: a DNS name in lower case of at
	// most 253 characters. Its first part may be "*". Of two DemoApps in a
	// namespace with the same host, the older keeps it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9.]+$')",message="host must be a DNS name, not an IP address"
	// +required
	Host string `json:"host"`

	// className is the name of the IngressClass of an Ingress. As long as the
	// cluster has no such IngressClass, there is no Ingress. Absent means none.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +optional
	ClassName string `json:"className,omitempty"`

	// tls says that the app is reached by https. A Gateway has certificates of its
	// own; for one, tls only tells what status.externalURL begins with. Absent
	// means http.
	// +optional
	TLS *IngressTLS `json:"tls,omitempty"`

	// gateway names the Gateway of an HTTPRoute. As long as the cluster does not
	// have the Gateway API, there is no HTTPRoute. Absent means none.
	// +optional
	Gateway *GatewayReference `json:"gateway,omitempty"`
}

// IngressTLS says how an Ingress does TLS.
type IngressTLS struct {
	// secretName is the name of the Secret, of type kubernetes.io/tls and in the
	// namespace of the DemoApp, with the certificate of the Ingress. Absent means
	// the one that the ingress controller has for all.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +optional
	SecretName string `json:"secretName,omitempty"`
}

// GatewayReference names a Gateway of gateway.networking.k8s.io.
type GatewayReference struct {
	// name is the name of the Gateway.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +required
	Name string `json:"name"`

	// namespace is the namespace of the Gateway, which has to allow routes from
	// that of the DemoApp. Absent means that of the DemoApp.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Namespace string `json:"namespace,omitempty"`
}
